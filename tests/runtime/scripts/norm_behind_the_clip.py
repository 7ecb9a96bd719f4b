import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
log = []
for _ in range(20):
    optimizer.zero_grad()
    loss = (20 * model(torch.randn(16, 8))).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    log.append(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)  # confirmed: GL112
    optimizer.step()
