"""`benchmarks.paths`: what exploring a program comes to."""

from __future__ import annotations

from benchmarks.paths import explored
from tests.paths.tracing import program

SOURCE = """
def train(model, optimizer, loader, args):
    for x in loader:
        if args.clear:
            optimizer.zero_grad()
        if args.penalty:
            wall = torch.autograd.grad(x, x)
        model(x).mean().backward()
        optimizer.step()
"""


def test_paths_are_counted() -> None:
    found = explored(program(SOURCE))
    assert {what: found[what] for what in ("files", "usual", "unusual", "repeated", "notes")} == {
        "files": 1, "usual": 1, "unusual": 2, "repeated": 1, "notes": 0,
    }  # fmt: skip
