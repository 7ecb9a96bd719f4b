from torch import nn


def make(width):
    return nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))
