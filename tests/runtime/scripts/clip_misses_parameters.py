# options: --extend-select GL107
"""The optimizer trains encoder and decoder, the clip knows the encoder only."""
import torch
from torch import nn

encoder = nn.Linear(8, 4)
decoder = nn.Linear(4, 8)
optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3)
for _ in range(20):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(decoder(encoder(x)), x)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)  # confirmed: GL107 no-fix
    optimizer.step()
