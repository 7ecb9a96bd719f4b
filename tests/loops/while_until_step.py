"""A while loop over updates, an iterator that restarts, two losses divided alike."""

import torch


def cycle(loader):
    while True:
        yield from loader


def train_vae(vae, labelled, unlabelled, max_updates=40_000, grad_acc=3, beta=0.1):
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9999)
    labelled_it, unlabelled_it = cycle(labelled), cycle(unlabelled)
    updates, micro = 0, 0
    opt.zero_grad()
    while updates < max_updates:
        x, y = next(labelled_it)
        supervised = vae.elbo_loss(x, y) / grad_acc
        supervised.backward()
        unsupervised = beta * vae.elbo_loss(next(unlabelled_it)) / grad_acc
        unsupervised.backward()
        micro += 1
        if micro % grad_acc == 0:
            torch.nn.utils.clip_grad_norm_(vae.parameters(), 5.0)
            opt.step()
            scheduler.step()
            opt.zero_grad()
            updates += 1
