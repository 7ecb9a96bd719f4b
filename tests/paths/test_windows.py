"""Every way to write an accumulation boundary gives the same windows."""

from __future__ import annotations

import pytest

from gradlint.events import WINDOW, Step
from gradlint.paths.run import TURNS
from gradlint.python import syntax as s
from tests.paths.tracing import happened, lowered, paths, turn, usual, windows

#: two whole windows and a rest that no step uses
WHOLE = [WINDOW] * (TURNS // WINDOW)
REST = TURNS % WINDOW

ENUMERATED = "i, (x, y) in enumerate(loader)"
PLAIN = "x, y in loader"


def _loop(head: str, test: str, *, before: str = "pass", behind: str = "pass", reset: str = "pass") -> str:
    """A loop that steps behind a test; `behind` runs after the backward, `reset` after the step."""
    return f"""
        def train(model, optimizer, loader, criterion, accum_steps):
            optimizer.zero_grad()
            {before}
            for {head}:
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
                {behind}
                if {test}:
                    optimizer.step()
                    optimizer.zero_grad()
                    {reset}
        """


def _steps(source: str) -> list[Step]:
    return [event for event in happened(usual(source)) if isinstance(event, Step)]


MODULO = {
    "one more": _loop(ENUMERATED, "(i + 1) % accum_steps == 0"),
    "last of the window": _loop(ENUMERATED, "i % accum_steps == accum_steps - 1"),
    "not": _loop(ENUMERATED, "not (i + 1) % accum_steps"),
    "one-based": _loop("i, (x, y) in enumerate(loader, 1)", "i % accum_steps == 0"),
    "one-based by keyword": _loop("i, (x, y) in enumerate(loader, start=1)", "i % accum_steps == 0"),
    "behind a progress bar": _loop("i, (x, y) in enumerate(tqdm(loader))", "(i + 1) % accum_steps == 0"),
    "progress bar round it": _loop("i, (x, y) in tqdm(enumerate(loader))", "(i + 1) % accum_steps == 0"),
    "incremented before": _loop(PLAIN, "seen % accum_steps == 0", before="seen = 0", behind="seen += 1"),
    "a flag": _loop(ENUMERATED, "full", behind="full = (i + 1) % accum_steps == 0"),
    "a flag, negated": _loop(ENUMERATED, "not more", behind="more = (i + 1) % accum_steps != 0"),
    "beside other conditions": _loop(ENUMERATED, "accum_steps > 0 and (i + 1) % accum_steps == 0"),
    "a zipped range": _loop("i, (x, y) in zip(range(100), loader)", "(i + 1) % accum_steps == 0"),
}

COUNTED = {
    "equal, then reset": _loop(PLAIN, "seen == accum_steps", before="seen = 0", behind="seen += 1", reset="seen = 0"),
    "at least, then reset": _loop(
        PLAIN, "seen >= accum_steps", before="seen = 0", behind="seen += 1", reset="seen = 0"
    ),
    "counted down": _loop(
        PLAIN, "left == 0", before="left = accum_steps", behind="left -= 1", reset="left = accum_steps"
    ),
    "difference to the last step": _loop(ENUMERATED, "i - last >= accum_steps", before="last = -1", reset="last = i"),
}


@pytest.mark.parametrize("name", MODULO)
def test_a_modulo_closes_a_window(name: str) -> None:
    source = MODULO[name]
    steps = _steps(source)
    assert windows(usual(source)) == WHOLE
    assert [turn(step) for step in steps] == [WINDOW - 1, 2 * WINDOW - 1]
    assert {(step.window, step.modulo, step.exact) for step in steps} == {("accum_steps", True, True)}


@pytest.mark.parametrize("name", COUNTED)
def test_a_counter_closes_a_window(name: str) -> None:
    source = COUNTED[name]
    steps = _steps(source)
    assert windows(usual(source)) == WHOLE
    assert {(step.window, step.modulo) for step in steps} == {("accum_steps", False)}


def test_the_boundary_is_told_as_it_is_rendered() -> None:
    test = lowered("(i + 1) % accum_steps == 0\n").body[0]
    assert isinstance(test, s.ExprStmt)
    assert {step.boundary for step in _steps(MODULO["one more"])} == {s.render(test.value)}


def test_a_zero_based_counter_steps_at_once() -> None:
    source = _loop(ENUMERATED, "i % accum_steps == 0")
    assert windows(usual(source)) == [1, WINDOW, WINDOW]


@pytest.mark.parametrize("last", ["i + 1 == len(loader)", "i == len(loader) - 1", "(i + 1) == len(loader)"])
def test_the_end_of_the_loader_closes_the_last_window(last: str) -> None:
    source = _loop(ENUMERATED, f"(i + 1) % accum_steps == 0 or {last}")
    assert windows(usual(source)) == [*WHOLE, REST]


def test_continue_before_the_boundary_is_a_boundary() -> None:
    source = """
        def train(model, optimizer, loader, criterion, accum_steps):
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
                if (i + 1) % accum_steps != 0:
                    continue
                optimizer.step()
                optimizer.zero_grad()
        """
    assert windows(usual(source)) == WHOLE
    assert {step.window for step in _steps(source)} == {"accum_steps"}


def test_a_counter_goes_on_over_epochs() -> None:
    source = """
        def train(model, optimizer, loader, criterion, accum_steps):
            seen = 0
            for epoch in range(10):
                for x, y in loader:
                    loss = criterion(model(x), y) / accum_steps
                    loss.backward()
                    seen += 1
                    if seen % accum_steps == 0:
                        optimizer.step()
                        optimizer.zero_grad()
        """
    assert set(windows(usual(source))) == {WINDOW}


def test_a_while_loop_counts_too() -> None:
    source = """
        def train(model, optimizer, batches, criterion, accum_steps, total):
            step = 0
            while step < total:
                x, y = next(batches)
                loss = criterion(model(x), y) / accum_steps
                loss.backward()
                step += 1
                if step % accum_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """
    assert windows(usual(source)) == WHOLE


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("_ in range(accum_steps)", "x, y = next(batches)"),
        ("micro in range(accum_steps)", "x, y = batch[micro]"),
        ("x, y in micro_batches", "pass"),
        ("x, y in zip(batch[0].chunk(accum_steps), batch[1].chunk(accum_steps))", "pass"),
    ],
)
def test_an_inner_loop_is_a_window(head: str, body: str) -> None:
    source = f"""
        def train(model, optimizer, loader, batches, micro_batches, criterion, accum_steps):
            for batch in loader:
                optimizer.zero_grad()
                for {head}:
                    {body}
                    loss = criterion(model(x), y) / accum_steps
                    loss.backward()
                optimizer.step()
        """
    counts = windows(usual(source))
    assert len(counts) == TURNS
    assert len(set(counts)) == 1
    assert counts[0] >= 2


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_small_number_is_taken_as_it_is(size: int) -> None:
    source = _loop(ENUMERATED, f"(i + 1) % {size} == 0")
    assert windows(usual(source)) == [size] * (TURNS // size)


@pytest.mark.parametrize("size", [8, 16, 1024])
def test_a_large_number_is_made_small(size: int) -> None:
    source = f"""
        ACCUM = {size}
        def train(model, optimizer, loader, criterion):
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / ACCUM
                loss.backward()
                if (i + 1) % ACCUM == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """
    assert windows(usual(source)) == WHOLE
    assert {step.window for step in _steps(source)} == {"ACCUM"}


@pytest.mark.parametrize(
    ("signature", "count", "test"),
    [
        ("batch", "self.seen += 1", "self.seen % self.accumulate == 0"),
        ("batch, batch_idx", "pass", "(batch_idx + 1) % self.accumulate == 0"),
        ("batch, step", "pass", "(step + 1) % self.accumulate == 0"),
    ],
)
def test_a_method_for_each_batch_counts_its_calls(signature: str, count: str, test: str) -> None:
    source = f"""
        class Trainer:
            def __init__(self, model, optimizer, accumulate):
                self.model = model
                self.optimizer = optimizer
                self.accumulate = accumulate
                self.seen = 0
            def train_batch(self, {signature}):
                loss = self.model(batch).mean() / self.accumulate
                loss.backward()
                {count}
                if {test}:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
        """
    assert windows(usual(source)) == WHOLE


def test_accelerate_skips_the_steps_inside_a_window() -> None:
    source = """
        from accelerate import Accelerator
        def train(model, optimizer, loader, criterion):
            accelerator = Accelerator(gradient_accumulation_steps=4)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for x, y in loader:
                with accelerator.accumulate(model):
                    loss = criterion(model(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
        """
    assert windows(usual(source)) == [*WHOLE, TURNS % WINDOW]  # the end of a prepared loader closes the last window


def test_an_unknown_flag_is_tried_both_ways() -> None:
    source = """
        def train(model, optimizer, loader, criterion, sampler):
            for x, y in loader:
                is_boundary = sampler.is_boundary()
                loss = criterion(model(x), y)
                loss.backward()
                if is_boundary:
                    optimizer.step()
                    optimizer.zero_grad()
        """
    seen = [windows(path) for path in paths(source)]
    assert [1] * TURNS in seen
    assert WHOLE in seen


@pytest.mark.parametrize("name", ["log_every", "save_every", "eval_interval"])
def test_a_modulo_without_a_step_is_no_window(name: str) -> None:
    source = f"""
        def train(model, optimizer, loader, {name}):
            for i, x in enumerate(loader):
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                if i % {name} == 0:
                    print(i)
        """
    assert windows(usual(source)) == [1] * TURNS
    assert {step.window for step in _steps(source)} == {""}


@pytest.mark.parametrize(
    ("found", "asked", "then"),
    [
        ("False", "torch.isfinite(p.grad).all()", "True"),
        ("True", "torch.isnan(p.grad).any()", "False"),
        ("True", "math.isinf(p.grad.norm())", "False"),
        ("True", "not torch.isfinite(p.grad).all()", "False"),
    ],
)
def test_gradients_usually_are_finite_whoever_leaves_the_loop_over_them(found: str, asked: str, then: str) -> None:
    source = f"""
        import math
        import torch

        def train(model, optimizer, loader, accum_steps):
            for i, x in enumerate(loader):
                (model(x).mean() / accum_steps).backward()
                if (i + 1) % accum_steps == 0:
                    usable = {found}
                    for p in model.parameters():
                        if {asked}:
                            usable = {then}
                            break
                    if usable:
                        optimizer.step()
                    optimizer.zero_grad()
        """
    assert windows(usual(source)) == WHOLE


@pytest.mark.parametrize(
    ("target", "over"),
    [
        ("optimizer", "optimizers"),
        ("(_, optimizer)", "enumerate(optimizers)"),
        ("(optimizer, schedule)", "zip(optimizers, schedulers)"),
        ("(_, (optimizer, schedule))", "enumerate(zip(optimizers, schedulers))"),
    ],
)
def test_one_stands_for_all_optimizers_of_a_list(target: str, over: str) -> None:
    source = f"""
        def train(model, optimizers, schedulers, loader, accum_steps):
            for i, x in enumerate(loader):
                (model(x).mean() / accum_steps).backward()
                if (i + 1) % accum_steps == 0:
                    for {target} in {over}:
                        optimizer.step()
                        optimizer.zero_grad()
        """
    path = usual(source)
    assert windows(path) == WHOLE
    assert {step.window for step in happened(path) if isinstance(step, Step)} == {"accum_steps"}
