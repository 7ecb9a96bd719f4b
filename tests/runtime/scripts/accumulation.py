import torch
from torch import nn

ACCUMULATION = 4


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    for i, (x, y) in enumerate(batches):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # confirmed: GL301
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # confirmed: GL103
        scheduler.step()  # confirmed: GL305, GL406
        if (i + 1) % ACCUMULATION == 0:
            optimizer.step()
            optimizer.zero_grad()


torch.manual_seed(0)
data = [(x, 20 * x.sum(dim=1, keepdim=True)) for x in torch.randn(64, 16, 8)]
train(nn.Linear(8, 1), data)
