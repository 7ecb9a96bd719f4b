"""Two optimizers; the generator's loss goes through the discriminator."""
import torch
from torch import nn

generator, discriminator = nn.Linear(4, 8), nn.Linear(8, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(20):
    real, noise = torch.randn(16, 8), torch.randn(16, 4)
    d_opt.zero_grad()
    fake = generator(noise)
    d_real = bce(discriminator(real), torch.ones(16, 1))
    d_real.backward()
    d_fake = bce(discriminator(fake.detach()), torch.zeros(16, 1))
    d_fake.backward()
    d_opt.step()
    g_opt.zero_grad()
    g_loss = bce(discriminator(fake), torch.ones(16, 1))
    g_loss.backward()
    g_opt.step()
