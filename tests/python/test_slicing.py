"""Cutting a program down must not change what happens in it."""

from __future__ import annotations

import textwrap
from pathlib import Path as File

import pytest

from gradlint.python import syntax as s
from gradlint.python.slicing import Slice
from gradlint.states import Path
from tests.paths.test_following import SAME_STORY
from tests.paths.tracing import Told, happened, names, paths, program, told, usual
from tests.sampling import spread

ROOT = File(__file__).resolve().parent.parent.parent
REAL = sorted([*(ROOT / "tests" / "loops").glob("*.py"), *(ROOT / "fixtures").glob("*/bad*.py")])


def _stories(source: str) -> list[tuple[str, list[Told]]]:
    return [(path.entry, told(happened(path))) for path in paths(source)]


def _texts(path: Path) -> list[str]:
    return [event.text for event in happened(path)]


def _uncut(self: Slice, body: list[s.Stmt]) -> list[s.Stmt]:
    return body


@pytest.mark.parametrize("name", SAME_STORY)
def test_cutting_changes_no_small_story(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SAME_STORY[name][1]
    cut = _stories(source)
    monkeypatch.setattr(Slice, "cut", _uncut)
    assert cut == _stories(source)


@pytest.mark.parametrize("file", spread(REAL, 10, 60), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_cutting_changes_no_usual_path(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    source = file.read_text(encoding="utf-8")
    cut = [_texts(path) for path in paths(source) if not path.unusual]
    monkeypatch.setattr(Slice, "cut", _uncut)
    assert cut == [_texts(path) for path in paths(source) if not path.unusual]


def _kept(source: str) -> list[str]:
    """The simple statements that are left, as one line each."""
    left = []
    for stmt in s.walk_stmts(program(source).core):
        match stmt:
            case s.ExprStmt():
                left.append(s.render(stmt.value))
            case s.Assign():
                left.append(f"{s.render(stmt.targets[0])} = {s.render(stmt.value)}")
            case _:
                pass
    return left


def test_what_has_nothing_to_do_with_gradients_is_cut() -> None:
    source = """
        import logging
        logging.basicConfig()
        def train(model, optimizer, loader):
            meter = Meter()
            names = sorted(files)
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
                meter.log(loss.item())
                print(names)
        """
    assert _kept(source) == ["optimizer.zero_grad()", "loss = model(x).mean()", "loss.backward()", "optimizer.step()"]


def test_what_flows_into_an_event_is_kept() -> None:
    source = """
        def train(model, optimizer, loader, args):
            limit = args.limit * 2
            bound = limit + 1
            unused = bound + 1
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                clip_grad_norm_(model.parameters(), bound)
                optimizer.step()
        """
    kept = _kept(source)
    assert "limit = args.limit * 2" in kept
    assert "bound = limit + 1" in kept
    assert "unused = bound + 1" not in kept


def test_a_call_that_counts_is_kept_and_one_that_only_sets_is_not() -> None:
    source = """
        class Trainer:
            def tick(self):
                self.count += 1
            def watch(self):
                self.count = len(self.log)
            def train(self, loader):
                for x in loader:
                    self.tick()
                    self.watch()
                    self.model(x).mean().backward()
                    if self.count % self.n == 0:
                        self.optimizer.step()
        """
    kept = _kept(source)
    assert "self.tick()" in kept
    assert "self.watch()" not in kept


def _in_loop(row: str) -> str:
    source = """
        import torch
        from torch.nn.utils import clip_grad_norm_
        def train(model, optimizer, loader, out, limit):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                ROW
                optimizer.step()
        """
    return textwrap.dedent(source).replace("ROW", row)


@pytest.mark.parametrize(
    "row",
    [
        "clip_grad_norm_(model.parameters(), 1.0)",
        "norm = clip_grad_norm_(model.parameters(), 1.0)",
        "out.append(clip_grad_norm_(model.parameters(), 1.0))",
        "print(clip_grad_norm_(model.parameters(), 1.0))",
        "print(f'norm {clip_grad_norm_(model.parameters(), 1.0)}')",
        "out['norm'] = clip_grad_norm_(model.parameters(), 1.0).item()",
        "out += [clip_grad_norm_(model.parameters(), 1.0)]",
        "if clip_grad_norm_(model.parameters(), 1.0) > limit: print('large')",
        "if limit and (norm := clip_grad_norm_(model.parameters(), 1.0)) > limit: print(norm)",
        "assert clip_grad_norm_(model.parameters(), 1.0) < limit",
        "for n in [clip_grad_norm_(model.parameters(), 1.0)]: print(n)",
        "with torch.profiler.record_function('clip'): clip_grad_norm_(model.parameters(), 1.0)",
        "_ = clip_grad_norm_(model.parameters(), 1.0) if True else None",
        "log = dict(norm=clip_grad_norm_(model.parameters(), 1.0))",
    ],
)
def test_an_event_is_kept_wherever_it_stands(row: str) -> None:
    assert names(usual(_in_loop(row)))[:4] == ["Zero", "Backward", "Clip", "Step"]
