import torch
from torch.utils.data import Dataset


class Digits(Dataset):
    """Noise with a bright row where the digit says."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(count)
        self.labels = torch.randint(10, (count,), generator=generator)
        self.images = 0.3 * torch.rand(count, 1, 12, 12, generator=generator)
        self.images[torch.arange(count), 0, self.labels] = 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
