"""The gradients of the last layer are taken away in the first epoch, between backward and step."""
import torch
from torch import nn


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(6, 8)
        self.last_layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.last_layer(torch.relu(self.backbone(x)))


def cancel_gradients_last_layer(epoch, model, freeze):
    if epoch >= freeze:
        return
    for name, p in model.named_parameters():
        if "last_layer" in name:
            p.grad = None


student = Student()
optimizer = torch.optim.AdamW(student.parameters())
for epoch in range(4):
    for x in torch.randn(4, 8, 6):
        loss = nn.functional.cross_entropy(student(x), x[:, :4].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 3.0)
        cancel_gradients_last_layer(epoch, student, freeze=2)
        optimizer.step()
