"""One flag decides each half of the update; both settings are right on their own."""

import contextlib

import torch
import torch.nn.utils as U


def fit(net, data, opt, crit, use_amp=True, clip=None, report_every=200):
    scaler = torch.amp.GradScaler("cuda") if use_amp else None
    seen = 0
    for step, (x, y) in enumerate(data):
        cast = torch.autocast("cuda") if use_amp else contextlib.nullcontext()
        with cast:
            pred = net(x.cuda())
            loss = crit(pred, y.cuda())

        opt.zero_grad()
        if use_amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()

        if clip is not None:
            if use_amp:
                scaler.unscale_(opt)
            U.clip_grad_norm_(net.parameters(), clip)

        if use_amp:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()

        seen += len(x)
        if step % report_every == report_every - 1:
            print(f"{seen} samples, loss {loss.item():.4f}")


def main(net, data):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    fit(net, data, opt, torch.nn.MSELoss(), use_amp=torch.cuda.is_available(), clip=1.0)
