import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(6):
    optimizer.zero_grad()
    loss = (model(torch.randn(8, 4)) - 1.0).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    optimizer.step()  # confirmed: GL203
    scaler.update()
