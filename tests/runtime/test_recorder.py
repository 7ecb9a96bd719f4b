"""The recorder sees zero_grad, backward, clip, step and schedule, with their lines and their numbers."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gradlint.runtime import norms  # noqa: E402
from gradlint.runtime.recording import (  # noqa: E402
    BackwardRan,
    Clipped,
    Raised,
    Stepped,
    Warned,
    Zeroed,
)
from tests.runtime.recorded import LOOP, Run, run  # noqa: E402


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("loop"), LOOP)


def test_the_order_of_a_plain_loop(loop: Run) -> None:
    assert loop.error is None
    assert loop.notes == []
    assert loop.kinds() == ["backward", "backward", "clip", "step", "zero"] * 2


def test_every_event_carries_the_users_line(loop: Run) -> None:
    for kind, mark in ((BackwardRan, "backward"), (Clipped, "clip"), (Stepped, "step"), (Zeroed, "zero")):
        for happening in loop.of(kind):
            assert happening.place is not None
            assert (happening.place.file, happening.place.line) == (loop.path, loop.line(mark))
            assert happening.place.function == "train"
            outer = happening.places[1]
            assert (outer.function, outer.call) == ("<module>", happening.places[1].call)


def test_a_call_of_a_function_keeps_its_number_and_the_next_has_another(tmp_path: Path) -> None:
    outcome = run(tmp_path, "def once():\n    loss_of().backward()\n    optimizer.step()\nonce()\nonce()\nonce()")
    calls = [h.places[0].call for h in outcome.happenings if h.KIND in ("backward", "step")]
    assert calls[0] == calls[1]
    assert calls[2] == calls[3]
    assert len(set(calls)) == 3


def test_the_norms_of_a_backward_are_those_of_the_gradients(loop: Run) -> None:
    first, second = loop.of(BackwardRan)[:2]
    assert second.gradients[0].norm == pytest.approx(2 * first.gradients[0].norm, rel=1e-5)
    assert [b.gradients[0].backwards for b in loop.of(BackwardRan)] == [1, 2, 1, 2]
    assert first.gradients[0].present == first.gradients[0].total == 4


def test_the_factor_of_the_loss_is_read_off_the_graph(loop: Run) -> None:
    backward = loop.of(BackwardRan)[0]
    assert (backward.factor, backward.mixed, backward.root) == (0.5, False, "MseLossBackward0")
    assert (backward.scaler, backward.scale) == ("", 1.0)


def test_a_clip_tells_before_after_and_what_it_returned(loop: Run) -> None:
    clip = loop.of(Clipped)[0]
    assert clip.returned == pytest.approx(loop.names["norms"][0])
    assert clip.before[0].norm == pytest.approx(clip.returned)
    assert clip.gradients[0].norm == pytest.approx(0.01, rel=1e-3)
    assert (clip.before[0].clipped, clip.gradients[0].clipped) == (False, True)
    assert (clip.limit, clip.how, clip.function) == (0.01, "norm", "clip_grad_norm_")
    assert (clip.parameters, clip.present, clip.missed) == (4, 4, 0)
    assert clip.cosine == pytest.approx(1.0)
    assert clip.active


def test_a_step_tells_the_gradients_it_used_and_how_far_it_went(loop: Run) -> None:
    step = loop.of(Stepped)[0]
    assert step.before[0].backwards == 2
    assert step.before[0].clipped
    assert step.moved == pytest.approx(0.1 * step.before[0].norm, rel=1e-3)
    assert (step.number, step.rates, step.owner, step.skipped, step.closure) == (1, (0.1,), "optimizer1", False, False)
    assert loop.of(Stepped)[-1].weights is None  # there is no other rank to compare them with


def test_weights_are_compared_by_their_norm_and_sum() -> None:
    tensors = [torch.randn(3, 5), torch.randn(7)]
    flat = torch.cat([tensor.double().flatten() for tensor in tensors])
    assert norms.sums(tensors) == pytest.approx((float(flat.norm()), float(flat.sum())))


def test_scalar_products_of_what_changed_and_what_did_not() -> None:
    before = [torch.randn(3, 5), torch.randn(7), torch.randn(2)]
    after = [before[0].clone(), before[1] * 0.5, before[2]]
    flat, other = (torch.cat([t.double().flatten() for t in tensors]) for tensors in (before, after))
    expected = (float(flat @ flat), float(flat @ other), float(other @ other))
    assert norms.products(before, after) == pytest.approx(expected, rel=1e-5)


def test_zero_grad_leaves_nothing(loop: Run) -> None:
    zero = loop.of(Zeroed)[0]
    assert (zero.by, zero.owner, zero.optimizers) == ("optimizer", "optimizer1", ("optimizer1",))
    assert (zero.gradients[0].norm, zero.gradients[0].present, zero.gradients[0].backwards) == (0.0, 0, 0)


@pytest.mark.parametrize(
    ("loss", "factor", "mixed", "root"),
    [
        ("loss_of()", 1.0, False, "MseLossBackward0"),
        ("loss_of() * 0.25", 0.25, False, "MseLossBackward0"),
        ("0.25 * loss_of()", 0.25, False, "MseLossBackward0"),
        ("loss_of() / torch.tensor(4.0)", 0.25, False, "MseLossBackward0"),
        ("(loss_of() / 2) / 2", 0.25, False, "MseLossBackward0"),
        ("(loss_of() + loss_of()) / 4", 0.25, False, "MseLossBackward0"),
        ("loss_of() / 4 + model(x).mean()", None, True, "AddBackward0"),
        ("loss_of() / 4 - model(x).mean() * 0.25", 0.25, False, "AddBackward0"),
        ("(1 - loss_of())", -1.0, False, "MseLossBackward0"),
        ("loss_of() + 1", 1.0, False, "MseLossBackward0"),
        ("model(x).sum() / 6", 1 / 6, False, "SumBackward0"),
        ("(model(x) * torch.arange(6.0)[:, None]).mean()", 1.0, False, "MeanBackward0"),
        ("loss_of().double() / 4", 0.25, False, "MseLossBackward0"),
        ("loss_of() * loss_of()", 1.0, False, "MulBackward0"),
    ],
)
def test_factors(tmp_path: Path, loss: str, factor: float | None, mixed: bool, root: str) -> None:
    backward = run(tmp_path, f"({loss}).backward()").of(BackwardRan)[0]
    assert backward.factor == pytest.approx(factor)
    assert (backward.mixed, backward.root) == (mixed, root)


def test_a_gradient_handed_in_is_a_factor_too(tmp_path: Path) -> None:
    outcome = run(tmp_path, "loss_of().backward(torch.tensor(0.5))\ntorch.autograd.backward([loss_of(), loss_of()])")
    assert [b.factor for b in outcome.of(BackwardRan)] == [0.5, 1.0]


def test_saved_constants_behind_hooks_are_left_alone(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        unpacked = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(1) or t):
            loss = loss_of() * torch.tensor(0.5)
        loss.backward()
        """,
    )
    without = run(tmp_path, outcome.text, prelude="", recorded=False)
    assert outcome.names["unpacked"] == without.names["unpacked"]
    assert outcome.of(BackwardRan)[0].root == "MulBackward0"


def test_a_graph_that_was_used_up_is_told_as_an_error(tmp_path: Path) -> None:
    outcome = run(tmp_path, "loss = loss_of() * torch.tensor(0.5)\nloss.backward()\nloss.backward()")
    assert outcome.notes == []
    assert outcome.kinds() == ["backward", "error"]
    assert outcome.of(Raised)[0].during == "backward"


def test_clearing_by_the_module(tmp_path: Path) -> None:
    outcome = run(tmp_path, "loss_of().backward()\nmodel[0].zero_grad()\nmodel.zero_grad()")
    part, whole = outcome.of(Zeroed)
    assert (part.by, part.owner, part.gradients[0].present) == ("module", "", 2)
    assert part.gradients[0].backwards == 1
    assert (whole.by, whole.gradients[0].present, whole.gradients[0].backwards) == ("module", 0, 0)


def test_a_subclass_that_overrides_and_calls_super_is_one_event(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        class Mine(torch.optim.SGD):
            def zero_grad(self, set_to_none=True):
                super().zero_grad(set_to_none)
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.mul_(1.0)
                return super().step(closure)
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        optimizer = Mine(model.parameters(), lr=0.1)
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()
        """,
    )
    assert outcome.kinds() == ["backward", "step", "zero"]
    assert outcome.of(Stepped)[0].owner == "optimizer3"


def test_an_optimizer_that_clears_in_its_step_has_used_them_first(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        class Mine(torch.optim.SGD):
            def step(self, closure=None):
                super().step(closure)
                self.zero_grad()
        optimizer = Mine(model.parameters(), lr=0.1)
        loss_of().backward()
        optimizer.step()
        """,
    )
    assert outcome.kinds() == ["backward", "step", "zero"]


def test_a_wrapper_optimizer_leaves_the_step_to_the_inner_one(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        class Lookahead(torch.optim.Optimizer):
            def __init__(self, inner):
                self.inner = inner
                super().__init__(inner.param_groups, {})
            def step(self, closure=None):
                return self.inner.step(closure)
        optimizer = Lookahead(optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
        """,
    )
    assert [s.owner for s in outcome.of(Stepped)] == ["optimizer1", "optimizer1"]
    assert outcome.of(BackwardRan)[-1].optimizers == ("optimizer1",)


def test_closures_zero_and_backward_come_before_the_step(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
        def closure():
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            return loss
        optimizer.step(closure)
        """,
    )
    assert outcome.kinds()[-1] == "step"
    assert outcome.kinds()[:2] == ["zero", "backward"]
    assert outcome.of(Stepped)[0].closure
    assert outcome.of(Zeroed)[0].place is not None
    assert outcome.notes == []


def test_an_optimizer_in_a_hook_steps_after_the_backward_that_fed_it(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
        def hook(p):
            optimizers[p].step()
            optimizers[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(hook)
        del optimizer
        loss_of().backward()
        """,
    )
    assert outcome.kinds() == ["backward", "step", "zero"] * 4
    owners = [h.optimizers for h in outcome.happenings if h.KIND in ("backward", "step", "zero")]
    assert all(len(set(owners[i : i + 3])) == 1 for i in range(0, 12, 3))


def test_two_optimizers_each_see_their_own(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        other = nn.Linear(4, 1)
        second = torch.optim.Adam(other.parameters(), lr=0.1)
        loss_of().backward()
        other(x).mean().backward()
        (loss_of() + other(x).mean()).backward()
        second.step()
        optimizer.step()
        """,
    )
    assert [b.optimizers for b in outcome.of(BackwardRan)] == [
        ("optimizer1",),
        ("optimizer2",),
        ("optimizer1", "optimizer2"),
    ]
    assert [s.owner for s in outcome.of(Stepped)] == ["optimizer2", "optimizer1"]


def test_autograd_grad_is_no_backward(tmp_path: Path) -> None:
    assert run(tmp_path, "torch.autograd.grad(loss_of(), list(model.parameters()))").kinds() == []


def test_value_clipping_turns_the_gradient(tmp_path: Path) -> None:
    code = "loss_of().backward()\ntorch.nn.utils.clip_grad_value_(model.parameters(), 0.01)"
    clip = run(tmp_path, code).of(Clipped)[0]
    assert (clip.how, clip.limit, clip.returned, clip.function) == ("value", 0.01, None, "clip_grad_value_")
    assert clip.cosine is not None
    assert clip.cosine < 0.999


@pytest.mark.skipif(not hasattr(torch.nn.utils, "clip_grads_with_norm_"), reason="torch < 2.6 has no such function")
def test_a_clip_with_a_norm_that_was_measured_before(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        from torch.nn.utils import clip_grads_with_norm_, get_total_norm
        loss_of().backward()
        norm = get_total_norm([p.grad for p in model.parameters()])
        clip_grads_with_norm_(model.parameters(), 0.01, norm)
        """,
    )
    assert outcome.kinds() == ["backward", "read", "clip"]
    clip = outcome.of(Clipped)[0]
    assert clip.function == "clip_grads_with_norm_"
    assert clip.returned == pytest.approx(clip.before[0].norm)
    assert clip.gradients[0].norm == pytest.approx(0.01, rel=1e-3)


def test_an_early_bound_clip_is_seen_and_given_back(tmp_path: Path) -> None:
    plain = torch.nn.utils.clip_grad_norm_
    outcome = run(
        tmp_path,
        """
        import sys, types
        from torch.nn.utils import clip_grad_norm_ as clip
        sys.modules["early_bound"] = types.ModuleType("early_bound")
        sys.modules["early_bound"].clip = clip
        loss_of().backward()
        clip(model.parameters(), max_norm=1.0)
        """,
    )
    assert outcome.of(Clipped)[0].limit == 1.0
    assert torch.nn.utils.clip_grad_norm_ is plain is sys.modules.pop("early_bound").clip


@pytest.mark.parametrize(
    ("source", "warns"), [("model.parameters()", True), ("filter(None.__ne__, list(model.parameters()))", False)]
)
def test_an_exhausted_iterator(tmp_path: Path, source: str, warns: bool) -> None:
    code = f"""
    params = {source}
    optimizer = torch.optim.SGD(params, lr=0.1)  # used up
    loss_of().backward()
    norm = torch.nn.utils.clip_grad_norm_(params, 1.0)  # clip
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = run(tmp_path, code)
    said = [w for w in caught if "empty generator" in str(w.message)]
    assert len(said) == warns
    assert all((w.filename, w.lineno) == (outcome.path, outcome.line("clip")) for w in said)
    assert len(outcome.of(Warned)) == warns
    clip = outcome.of(Clipped)[0]
    assert (clip.exhausted, clip.parameters, clip.present) == (True, 0, 0)
    assert clip.exhausted_by is not None
    assert clip.exhausted_by.line == outcome.line("used up")
    assert clip.optimizers == ("optimizer2",)
    assert clip.missed == 4
    assert float(outcome.names["norm"]) == 0.0


def test_a_fresh_generator_is_clipped_as_ever(tmp_path: Path) -> None:
    code = """
    loss_of().backward()
    params = model.parameters()
    torch.nn.utils.clip_grad_norm_(params, 0.01)
    rest = list(params)
    """
    outcome = run(tmp_path, code)
    clip = outcome.of(Clipped)[0]
    assert (clip.exhausted, clip.parameters) == (False, 4)
    assert outcome.names["rest"] == []
    assert clip.gradients[0].norm == pytest.approx(0.01, rel=1e-3)


def test_parameters_that_a_clip_misses(tmp_path: Path) -> None:
    clip = run(tmp_path, "loss_of().backward()\ntorch.nn.utils.clip_grad_norm_(model[0].parameters(), 1.0)").of(Clipped)
    assert (clip[0].parameters, clip[0].missed) == (2, 2)
