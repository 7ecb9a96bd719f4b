"""Accelerate divides the loss by the number of micro-batches, and so does the loop."""

import torch
from accelerate import Accelerator
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

ACCUMULATION_STEPS = 4


def train():
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATION_STEPS, cpu=DEVICE == "cpu")
    net = network()
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(net, sgd)
    for x, y in batches(12):
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
            accelerator.backward(loss)  # expect: GL306
            optimizer.step()
            optimizer.zero_grad()


train()
