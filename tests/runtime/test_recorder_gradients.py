"""What the user's code does to `.grad` itself: cleared, edited or merely read, one event for each line."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gradlint.runtime.recording import Edited, Looked, Zeroed  # noqa: E402
from tests.runtime.recorded import run  # noqa: E402

BACKWARD = "loss_of().backward()\n"


@pytest.mark.parametrize(
    ("body", "by"),
    [
        ("p.grad = None  # here", "assignment"),
        ("del p.grad  # here", "assignment"),
        ("p.grad = torch.zeros_like(p)  # here", "assignment"),
        ("p.grad.zero_()  # here", "in-place"),
        ("p.grad.data.zero_()  # here", "in-place"),
        ("p.grad.mul_(0)  # here", "in-place"),
        ("p.grad.detach_(); p.grad.zero_()  # here", "in-place"),
    ],
)
def test_clearing_by_hand_is_one_event(tmp_path: Path, body: str, by: str) -> None:
    code = BACKWARD + f"for p in model.parameters():\n    if p.grad is not None:\n        {body}\n" + BACKWARD
    outcome = run(tmp_path, code)
    assert outcome.kinds() == ["backward", "zero", "backward"]
    zero = outcome.of(Zeroed)[0]
    assert zero.by == by
    assert zero.place is not None
    assert zero.place.line == outcome.line("here")
    assert zero.gradients[0].norm == 0.0
    assert zero.gradients[0].backwards == 0
    assert outcome.notes == []


@pytest.mark.parametrize(
    ("body", "how", "factor"),
    [
        ("p.grad /= 4", "divide", 0.25),
        ("p.grad.div_(4)", "divide", 0.25),
        ("p.grad = p.grad / 4", "divide", 0.25),
        ("p.grad.data.mul_(3)", "scale", 3.0),
        ("p.grad.data = p.grad.data * 3", "scale", 3.0),
        ("p.grad.clamp_(-0.01, 0.01)", "clamp", None),
        ("p.grad.data.clamp_(-100, 100)", "clamp", None),
        ("p.grad = p.grad.clamp(-0.01, 0.01)", "clamp", None),
        ("p.grad += 0.1 * torch.randn_like(p)", "noise", None),
        ("p.grad.add_(p.detach(), alpha=5.0)", "other", None),
        ("p.grad = torch.ones_like(p)", "new", None),
    ],
)
def test_edits_are_told_apart(tmp_path: Path, body: str, how: str, factor: float | None) -> None:
    code = (
        BACKWARD + f"for p in model.parameters():\n    if p.grad is not None:\n        {body}  # here\noptimizer.step()"
    )
    outcome = run(tmp_path, code)
    assert outcome.kinds() == ["backward", "edit", "step"]
    edit = outcome.of(Edited)[0]
    assert edit.how == how
    assert edit.factor == pytest.approx(factor)
    assert edit.place is not None
    assert edit.place.line == outcome.line("here")
    step = outcome.happenings[-1]
    assert edit.before[0].norm == pytest.approx(outcome.happenings[-3].gradients[0].norm)
    assert edit.gradients[0].norm == pytest.approx(step.before[0].norm)
    if factor is not None:
        assert edit.gradients[0].norm == pytest.approx(edit.before[0].norm * factor, rel=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        "total = sum(p.grad.norm() ** 2 for p in model.parameters())",
        "norms = [p.grad.detach().norm(2) for p in model.parameters() if p.grad is not None]",
        "grads = [p.grad for p in model.parameters()]; torch._foreach_norm(grads)",
        "biggest = max(p.grad.abs().max().item() for p in model.parameters())",
    ],
)
def test_reading_is_one_event(tmp_path: Path, line: str) -> None:
    outcome = run(tmp_path, BACKWARD + line + "  # here\noptimizer.step()")
    assert outcome.kinds() == ["backward", "read", "step"]
    look = outcome.of(Looked)[0]
    assert look.place is not None
    assert look.place.line == outcome.line("here")
    assert look.gradients[0].norm == pytest.approx(outcome.happenings[-1].before[0].norm)


def test_asking_whether_there_is_a_gradient_is_not_reading_it(tmp_path: Path) -> None:
    code = """
    trained = [p for p in model.parameters() if p.grad is not None]
    if model[0].weight.grad is None:
        raise RuntimeError
    shapes = [p.grad.shape for p in trained]
    optimizer.step()
    """
    assert run(tmp_path, BACKWARD + code.replace("\n    ", "\n")).kinds() == ["backward", "step"]


def test_none_as_another_argument_is_no_question(tmp_path: Path) -> None:
    code = "grads = [(p.grad, None) for p in model.parameters()]\noptimizer.step()"
    assert run(tmp_path, BACKWARD + code).kinds() == ["backward", "read", "step"]


def test_an_installed_package_works_for_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "gradient_tools.py").write_text(
        "def halve(ps):\n    for p in ps:\n        if p.grad is not None:\n            p.grad.mul_(0.5)\n\n"
        "def clear(ps):\n    for p in ps:\n        p.grad = None\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(packages))
    code = """
    import gradient_tools
    loss_of().backward()
    gradient_tools.halve(model.parameters())  # halved
    optimizer.step()
    gradient_tools.clear(model.parameters())  # cleared
    loss_of().backward()
    """
    outcome = run(tmp_path, code)
    assert outcome.kinds() == ["backward", "edit", "step", "zero", "backward"]
    edit, zero = outcome.of(Edited)[0], outcome.of(Zeroed)[0]
    assert edit.place is not None
    assert (edit.place.line, edit.how) == (outcome.line("halved"), "divide")
    assert zero.place is not None
    assert zero.place.line == outcome.line("cleared")


def test_hooks_of_a_backward_are_part_of_it_in_any_thread(tmp_path: Path) -> None:
    code = """
    import _thread
    def look(p):
        over = _thread.allocate_lock()
        over.acquire()
        _thread.start_new_thread(lambda: (norms.append(p.grad.norm()), over.release()), ())
        over.acquire()
    norms = []
    model[0].weight.register_post_accumulate_grad_hook(look)
    loss_of().backward()
    optimizer.step()
    """
    outcome = run(tmp_path, code)
    assert len(outcome.names["norms"]) == 1
    assert outcome.kinds() == ["backward", "step"]


def test_two_edits_in_one_loop_are_two_events_with_norms_in_between(tmp_path: Path) -> None:
    code = """
    for p in model.parameters():
        p.grad.mul_(0.5)  # halved
        p.grad.mul_(3.0)  # tripled
        grad = p.grad  # read
        seen = grad.sum()
    optimizer.step()
    """
    outcome = run(tmp_path, BACKWARD + code.replace("\n    ", "\n"))
    assert outcome.kinds() == ["backward", "edit", "edit", "read", "step"]
    first, second = outcome.of(Edited)
    assert first.factor == pytest.approx(0.5)
    assert second.factor == pytest.approx(3.0)
    assert second.before[0].norm == pytest.approx(first.gradients[0].norm)
    assert second.gradients[0].norm == pytest.approx(1.5 * first.before[0].norm, rel=1e-5)


def test_an_edit_through_a_name_belongs_to_the_line_that_took_it(tmp_path: Path) -> None:
    code = "for p in model.parameters():\n    grad = p.grad  # taken\n    grad.mul_(0.5)\noptimizer.step()"
    outcome = run(tmp_path, BACKWARD + code)
    assert outcome.kinds() == ["backward", "edit", "step"]
    edit = outcome.of(Edited)[0]
    assert edit.place is not None
    assert edit.place.line == outcome.line("taken")


def test_edits_of_a_list_at_once(tmp_path: Path) -> None:
    code = "torch._foreach_mul_([p.grad for p in model.parameters()], 0.5)\noptimizer.step()"
    edit = run(tmp_path, BACKWARD + code).of(Edited)[0]
    assert edit.how == "divide"
    assert edit.factor == pytest.approx(0.5)


def test_gradients_of_other_tensors_are_nobodys_business(tmp_path: Path) -> None:
    code = """
    inputs = x.clone().requires_grad_()
    nn.functional.mse_loss(model(inputs), y).backward()
    attack = inputs.grad.sign()
    inputs.grad = None
    """
    assert run(tmp_path, code).kinds() == ["backward"]


def test_a_partial_clearing_keeps_the_rest(tmp_path: Path) -> None:
    outcome = run(tmp_path, BACKWARD + "model[0].weight.grad = None\noptimizer.step()")
    zero = outcome.of(Zeroed)[0]
    assert (zero.gradients[0].present, zero.gradients[0].backwards) == (3, 1)


def test_the_gradient_of_a_tensor_that_is_no_leaf_warns_at_the_users_line(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = run(tmp_path, "out = model(x)\nout.sum().backward()\nnothing = out.grad  # here")
    said = [w for w in caught if "not a leaf" in str(w.message)]
    assert [(w.filename, w.lineno) for w in said] == [(outcome.path, outcome.line("here"))]
    assert outcome.names["nothing"] is None


def test_copies_and_pickles_keep_their_gradients(tmp_path: Path) -> None:
    code = """
    import copy, io
    twin = copy.deepcopy(model)
    twin_optimizer = copy.deepcopy(optimizer)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    kept = [[p.grad is not None for p in m.parameters()] for m in (model, twin, again)]
    """
    outcome = run(tmp_path, BACKWARD + code.replace("\n    ", "\n"))
    assert outcome.error is None
    assert outcome.notes == []
    plain = run(tmp_path, outcome.text, prelude="", recorded=False)
    assert outcome.names["kept"] == plain.names["kept"]


def test_a_tensor_subclass_keeps_the_identity_of_its_gradient(tmp_path: Path) -> None:
    code = """
    class Mine(torch.Tensor):
        pass
    t = torch.randn(3).as_subclass(Mine).requires_grad_()
    t.sum().backward()
    same = t.grad is t.grad
    """
    assert run(tmp_path, code).names["same"] is True


@pytest.mark.slow
@pytest.mark.filterwarnings("error:Dynamo does not know")
def test_compiled_code_runs_as_ever(tmp_path: Path) -> None:
    code = """
    fast = torch.compile(model, backend="aot_eager", fullgraph=True)
    @torch.compile(backend="eager")
    def halve(p):
        if p.grad is not None:
            p.grad.mul_(0.5)
        return p.grad * 2
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.mse_loss(fast(x), y).backward()
        doubled = [halve(p) for p in model.parameters()]
        norm = sum(d.norm() ** 2 for d in doubled).sqrt()
        optimizer.step()
    weights = [p.detach().clone() for p in model.parameters()]
    """
    outcome = run(tmp_path, code)
    assert outcome.error is None
    assert outcome.notes == []
    plain = run(tmp_path, code, recorded=False)
    assert all(torch.equal(a, b) for a, b in zip(outcome.names["weights"], plain.names["weights"], strict=True))
    assert outcome.kinds() == ["zero", "backward", "edit", "step"] * 2
