"""An object is the same by whatever name it is met: in a list, under another name, half of its call given before."""

from __future__ import annotations

import pytest

from gradlint.events import Backward, Step, Zero
from tests.paths.tracing import happened, paths

AGENT = """
import torch
from functools import partial
class Agent:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), 0.1)
    @classmethod
    def of(cls, net):
        return cls(net)
    def update(self, loss):
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

#: what stands before the loop, and in it; the models whose optimizers clear and step
CASES: dict[str, tuple[str, str, str]] = {
    "a list of objects": (
        "agents = [Agent(a), Agent(b)]",
        "for agent in agents:\n            agent.update(agent.net(x).mean())",
        "ab",
    ),
    "another name": (
        "agent = Agent(a)\n    other = agent\n    other.opt = torch.optim.Adam(b.parameters())",
        "agent.update(b(x).mean())",
        "b",
    ),
    "one of a list": ("agents = [Agent(a), Agent(b)]", "agents[-1].update(b(x).mean())", "b",),
    "a class makes it": ("agent = Agent.of(a)", "agent.update(a(x).mean())", "a",),
    "a method put aside": ("agent = Agent(a)\n    go = agent.update", "go(a(x).mean())", "a",),
    "half of a call": (
        "opt = torch.optim.SGD(a.parameters(), 0.1)\n    go = partial(update, opt)", "go(a(x).mean())", "a",
    ),
    "a slice": (
        "opts = [torch.optim.SGD(m.parameters(), 0.1) for m in (a, b, c)]",
        "for opt in opts[1:]:\n            update(opt, x.mean())",
        "bc",
    ),
    "the rest": (
        "first, *others = [torch.optim.SGD(m.parameters(), 0.1) for m in (a, b, c)]",
        "for opt in others:\n            update(opt, x.mean())",
        "bc",
    ),
    "a list that is filled later": (
        "opts = [None for _ in b]\n    for i in range(n):\n        opts[i] = torch.optim.SGD(a.parameters(), 0.1)",
        "for opt in opts:\n            update(opt, x.mean())",
        "a",
    ),
    "a key that is only a name": (
        "opts = {}\n    opts[key] = torch.optim.SGD(a.parameters(), 0.1)", "update(opts[key], x.mean())", "a",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "inside", "trained"), CASES.values(), ids=CASES)
def test_an_object_by_another_name(before: str, inside: str, trained: str) -> None:
    source = f"{AGENT}def main(a, b, c, loader, n, key):\n    {before}\n    for x in loader:\n        {inside}\n"
    path = next(path for path in paths(source) if path.entry == "main")
    cleared = [event for event in happened(path) if isinstance(event, Zero)]
    assert {*map(frozenset, (event.params.owners for event in cleared))} == {frozenset(owner) for owner in trained}
    assert {event.optimizer for event in happened(path) if isinstance(event, Step)} == {x.optimizer for x in cleared}


UNSEEN = """
import torch
class Agent:
    def __init__(self):
        self.policy = Policy()
        self.critic = Critic()
        self.policy_optimizer = torch.optim.SGD(self.policy.parameters(), 0.1)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), 0.1)
    def update(self, state):
        action, log_prob = self.policy.evaluate(state)
        loss = (log_prob - self.critic(state, action)).mean()
        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()
agent = Agent()
for state in replay():
    agent.update(state)
"""


def test_what_a_model_that_is_not_seen_computes_comes_from_its_parameters() -> None:
    backward = next(event for event in happened(paths(UNSEEN)[0]) if isinstance(event, Backward))
    assert backward.params.owners == {"Agent#1.policy", "Agent#1.critic"}
