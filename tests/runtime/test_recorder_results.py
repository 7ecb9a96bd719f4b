"""The recorder changes nothing: the same seed gives the same weights with it and without it, bit for bit."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.runtime.recorded import run  # noqa: E402

DATA = """
data = [(torch.randn(5, 4), torch.randn(5, 1)) for _ in range(6)]
def loss_on(i):
    return nn.functional.mse_loss(nn.functional.dropout(model(data[i][0]), 0.2), data[i][1])
"""

LOOPS = {
    "sgd": """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for i in range(6):
            optimizer.zero_grad()
            loss_on(i).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        """,
    "adamw": """
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        for i in range(6):
            loss_on(i).backward()
            for p in model.parameters():
                p.grad.add_(0.01 * torch.randn_like(p))
            optimizer.step()
            scheduler.step()
            for p in model.parameters():
                p.grad = None
        """,
    "amp": """
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=2)
        for i in range(6):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_on(i)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
        """,
    "fused": """
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        for i in range(6):
            optimizer.zero_grad()
            scaler.scale(loss_on(i)).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    "accumulation": """
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
        for i in range(6):
            (loss_on(i) / 3).backward()
            if i % 3 == 2:
                total = sum(float(p.grad.norm()) for p in model.parameters())
                optimizer.step()
                model.zero_grad(set_to_none=False)
        """,
    "lbfgs": """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss
        for i in range(3):
            optimizer.step(closure)
        """,
    "create-graph": """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for i in range(3):
            optimizer.zero_grad()
            loss_on(i).backward(create_graph=True)
            sum(p.grad.pow(2).sum() for p in model.parameters()).backward()
            optimizer.step()
        """,
    "loader": """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=2, shuffle=True)
        for epoch in range(2):
            for bx, by in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(bx), by).backward()
                optimizer.step()
        """,
}


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph:UserWarning")
@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_the_weights_are_the_same(tmp_path: Path, loop: str) -> None:
    code = DATA + textwrap.dedent(LOOPS[loop])
    recorded, plain = run(tmp_path, code), run(tmp_path, code, recorded=False)
    assert recorded.error is plain.error is None
    assert recorded.notes == []
    assert recorded.kinds().count("step") >= 2
    for name, tensor in plain.names["model"].state_dict().items():
        assert torch.equal(recorded.names["model"].state_dict()[name], tensor), name
    for index, state in plain.names["optimizer"].state_dict()["state"].items():
        other = recorded.names["optimizer"].state_dict()["state"][index]
        for name, value in state.items():
            same = torch.equal(other[name], value) if isinstance(value, torch.Tensor) else _alike(other[name], value)
            assert same, name


def _alike(left: object, right: object) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_alike(a, b) for a, b in zip(left, right, strict=True))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
