"""A counter that is raised before it is asked, and a flush behind the loop."""

import torch


class MicroBatchRunner:
    def __init__(self, model, optimizer, every):
        self.model = model
        self.optimizer = optimizer
        self.every = every
        self.micro_step = 0

    def run(self, stream):
        self.optimizer.zero_grad()
        self.micro_step = 0
        pending = False
        for sample in stream:
            self.micro_step += 1
            loss = self.model(sample["x"], target=sample["y"])
            (loss / self.every).backward()
            pending = True
            if self.micro_step % self.every == 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
                pending = False
        if pending:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


def build(model, lr=1e-3):
    return MicroBatchRunner(model, torch.optim.NAdam(model.parameters(), lr=lr), every=16)
