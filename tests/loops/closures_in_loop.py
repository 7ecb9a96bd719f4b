"""The loop body is made of local functions."""

import torch


def run(task, model, loader, num_epochs, use_clip=True):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5)

    def forward(batch):
        out = model(batch.x, batch.edge_index, batch.batch)
        return task.loss(out, batch.y)

    def backward(loss):
        optimizer.zero_grad()
        loss.backward()

    def take_step():
        if use_clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    for epoch in range(num_epochs):
        model.train()
        total = 0.0
        for batch in loader:
            loss = forward(batch)
            backward(loss)
            take_step()
            total += loss.item()
        scheduler.step(total / len(loader))
        print(epoch, total / len(loader))
