"""A GAN: each network has its own optimizer, and the generator's loss passes through the discriminator."""

import torch
from torch import nn

latent_dim = 100


def weights_init(m):
    if isinstance(m, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(m.weight, 0.0, 0.02)


def train_gan(generator, discriminator, dataloader, n_epochs=200, lr=2e-4, device="cuda"):
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    adversarial_loss = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=lr, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=lr, betas=(0.5, 0.999))

    for epoch in range(n_epochs):
        for real, _ in dataloader:
            real = real.to(device)
            valid = torch.ones(real.size(0), 1, device=device)
            fake = torch.zeros(real.size(0), 1, device=device)

            optimizer_g.zero_grad()
            z = torch.randn(real.size(0), latent_dim, device=device)
            gen_imgs = generator(z)
            g_loss = adversarial_loss(discriminator(gen_imgs), valid)
            g_loss.backward()
            optimizer_g.step()

            optimizer_d.zero_grad()
            real_loss = adversarial_loss(discriminator(real), valid)
            fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optimizer_d.step()
        print(f"[{epoch}/{n_epochs}] D {d_loss.item():.3f} G {g_loss.item():.3f}")
