"""Which ways through the code are followed: flags that go together, and an end for every explosion."""

from __future__ import annotations

import itertools
import random

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.events import Backward, Step
from gradlint.paths import explorer as module
from gradlint.paths.explorer import FILE_BUDGET, MAX_PATHS, PATH_BUDGET, Explorer
from gradlint.python import syntax as s
from gradlint.python.module import Module
from gradlint.states import Path
from tests.paths.tracing import happened, names, paths, program


def _first_turn(path: Path) -> list[str]:
    return [type(event).__name__ for event in happened(path) if all(frame.turn == 0 for frame in event.frames)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("use_amp", "use_amp"),
        ("args.fp16", "args.fp16"),
        ("scaler is not None", "scaler is not None"),
        ("scaler is not None", "scaler"),
        ("not args.no_cuda", "not args.no_cuda"),
        ('args.precision == "half"', 'args.precision == "half"'),
    ],
)
def test_mixed_precision_is_on_or_off_for_a_whole_path(first: str, second: str) -> None:
    source = f"""
        def train(model, optimizer, loader, scaler, use_amp, args):
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean()
                if {first}:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if {second}:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
        """
    stories = []
    for path in paths(source):
        events = happened(path)
        scaled = {event.scaler is not None for event in events if isinstance(event, Backward | Step)}
        assert len(scaled) == 1, "a path with both"
        stories.append(_first_turn(path))
    assert sorted(stories) == [["Zero", "Backward", "Step"], ["Zero", "Backward", "Step", "Update"]]


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("args.early", "not args.early"),
        ("args.early is None", "args.early is not None"),
        ('args.mode == "early"', 'args.mode != "early"'),
        ("args.early == True", "args.early == False"),
        ("early", "not args.early"),
        ("args.a and args.b", "not (args.a and args.b)"),
    ],
)
def test_a_flag_has_one_value(early: str, late: str) -> None:
    stories = {tuple(_first_turn(path)) for path in paths(_cleared_once(early, late))}
    assert stories == {("Zero", "Backward", "Step"), ("Backward", "Step", "Zero")}


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("args.a or args.b", "not (args.a or args.b)"),
        ("args.a and not args.b", "not args.a or args.b"),
        ("args.a if args.b else args.c", "not (args.a if args.b else args.c)"),
        ("args.a == args.b", "args.a != args.b"),
        ("args.a > 0", "not args.a > 0"),
        ("args.a in names", "args.a not in names"),
        ("len(args.a)", "not len(args.a)"),
    ],
)
def test_flags_that_exclude_each_other_never_meet(early: str, late: str) -> None:
    found = paths(_cleared_once(early, late))
    assert found
    assert [names(path) for path in found if _first_turn(path).count("Zero") != 1] == []


def _cleared_once(early: str, late: str) -> str:
    """A loop that clears at its head or at its end, whichever condition holds."""
    return f"""
        def train(model, optimizer, loader, args):
            early = args.early
            for x in loader:
                if {early}:
                    optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                if {late}:
                    optimizer.zero_grad()
        """


def test_a_flag_of_an_object_has_one_value_in_all_methods() -> None:
    source = """
        class Trainer:
            def __init__(self, model, optimizer, early):
                self.model, self.optimizer, self.early = model, optimizer, early
            def before(self):
                if self.early:
                    self.optimizer.zero_grad()
            def after(self):
                if not self.early:
                    self.optimizer.zero_grad()
            def fit(self, loader):
                for x in loader:
                    self.before()
                    self.model(x).mean().backward()
                    self.optimizer.step()
                    self.after()
        """
    stories = {tuple(_first_turn(path)) for path in paths(source)}
    assert stories == {("Zero", "Backward", "Step"), ("Backward", "Step", "Zero")}


def test_a_thing_cannot_equal_two_constants() -> None:
    source = """
        def train(model, optimizer, loader, args):
            for x in loader:
                if args.mode == "early":
                    optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                if args.mode == "late":
                    optimizer.zero_grad()
        """
    assert all(_first_turn(path).count("Zero") <= 1 for path in paths(source))


def test_conditions_that_change_nothing_make_no_paths() -> None:
    source = """
        def train(model, optimizer, loader, args):
            for x in loader:
                if args.verbose:
                    print(x)
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                if args.log:
                    args.writer.add_scalar("loss", 1)
        """
    assert len(paths(source)) == 1


def test_the_usual_path_comes_first() -> None:
    source = """
        def train(model, optimizer, loader, args):
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean()
                if not loss.isfinite():
                    continue
                loss.backward()
                optimizer.step()
        """
    found = paths(source)
    assert _first_turn(found[0]) == ["Zero", "Backward", "Step"]
    assert ["Zero"] in [_first_turn(path) for path in found[1:]]
    assert [path.unusual for path in found] == [0, 1]


def test_what_was_assumed_is_told() -> None:
    source = """
        def train(model, optimizer, loader, args):
            for x in loader:
                if args.clear:
                    optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """
    assert [dict(path.decisions) for path in paths(source)] == [{"args.clear": True}, {"args.clear": False}]


def test_every_entry_point_is_explored_once() -> None:
    source = """
        def update(optimizer, loss):
            loss.backward()
            optimizer.step()
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                update(optimizer, model(x).mean())
        def pretrain(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                update(optimizer, model(x).mean())
        """
    assert sorted(path.entry for path in paths(source)) == ["pretrain", "train"]


def _flagged(name: str) -> str:
    return f"""
def {name}(model, optimizer, loader, args):
    for x in loader:
        if args.clear:
            optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


def test_all_usual_paths_come_before_the_unusual_ones_which_take_turns() -> None:
    found = paths(_flagged("first") + _flagged("second"))
    assert [(path.entry, path.unusual) for path in found] == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]


def test_what_is_called_on_an_unusual_path_only_is_no_starting_point() -> None:
    source = """
        def clear(optimizer, model):
            optimizer.zero_grad()
        def train(model, optimizer, loader, args):
            for x in loader:
                loss = model(x).mean()
                if not loss.isfinite():
                    clear(optimizer, model)
                    continue
                loss.backward()
                optimizer.step()
        """
    assert [(path.entry, path.unusual) for path in paths(source)] == [("train", 0), ("train", 1)]


CLIPS_LATE = """
def {name}(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""


#: clears, unless somebody says otherwise, what the step needs: one of its ways is wrong
RESETS = """
def {name}(model, optimizer, loader, args):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        if args.keep:
            print(x)
        else:
            optimizer.zero_grad()
        optimizer.step()
"""


def _found(source: str) -> list[tuple[str, str]]:
    """The findings of a file: code and message."""
    settings = Settings(layers=(Layer(unfixable=("ALL",)),))
    return [(f.code, f.message) for f in lint(f"import torch\n{source}".encode(), "train.py", settings).findings]


@pytest.mark.slow
def test_each_of_many_small_loops_is_looked_at() -> None:
    """All of them together take more steps than the unusual paths of a file may."""
    rows = ("o.zero_grad()", "out = m(x)", "loss = out.mean()", "loss.backward()", "clip(m)", "o.step()")
    body = "    for x in data:\n" + "".join(f"        {row}\n" for row in rows)
    source = "".join(f"def train{n}(m, o, data):\n{body}" for n in range(240))
    explorer = Explorer(program(source))
    assert {path.entry for path in explorer.paths()} == {f"train{n}" for n in range(240)}
    assert explorer.exhausted == []


def test_a_mistake_behind_a_costly_function_is_found() -> None:
    costly = LOOP.format(body=_flags(40))
    assert sum(code == "GL101" for code, _ in _found(costly + CLIPS_LATE.format(name="tune"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("start", ["def main(model, optimizer, loader, args):\n    {}\n", "{}\n"])
def test_what_a_spent_caller_did_not_come_by_is_looked_at_by_itself(start: str) -> None:
    slow = "".join(f"{'    ' * (n + 1)}for x{n} in loader:\n" for n in range(12)) + "    " * 13 + "optimizer.step()\n"
    source = f"def slow(optimizer, loader):\n{slow}" + CLIPS_LATE.format(name="tune")
    source += start.format("slow(optimizer, loader); slow(optimizer, loader); tune(model, optimizer, loader)")
    explorer = Explorer(program(source))
    found = list(explorer.paths())
    assert found[0].exhausted
    assert "tune" in {path.entry for path in found}
    name = "`main`" if "main" in start else "the module"
    assert f"{name} is too long to be followed to its end" in explorer.exhausted


def test_what_was_broken_off_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller has used up the steps before its end came."""
    monkeypatch.setattr(module, "PATH_BUDGET", 100)
    source = CLIPS_LATE.format(name="tune") + "def main(model, optimizer, loader):\n"
    source += "    optimizer.zero_grad()\n" * 40 + "    tune(model, optimizer, loader)\n"
    assert [path.entry for path in paths(source)] == ["main", "tune"]


def test_unusual_ways_that_were_not_followed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = program(LOOP.format(body=_flags(10)))
    explorer = Explorer(parsed)
    assert sum(path.unusual for path in explorer.paths()) == 10
    assert explorer.exhausted == []
    monkeypatch.setattr(module, "FILE_BUDGET", 1)
    explorer = Explorer(parsed)
    assert sum(path.unusual for path in explorer.paths()) == 1
    assert explorer.exhausted == ["9 unusual ways through `train` were not followed"]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [FILE_BUDGET, 1_500])
def test_the_order_of_independent_functions_makes_no_difference(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it if the budget is spent before every unusual path had its turn."""
    monkeypatch.setattr(module, "FILE_BUDGET", budget)
    functions = [RESETS.format(name=f"reset{n}") for n in range(3)]
    functions += [CLIPS_LATE.format(name=f"tune{n}") for n in range(3)]
    functions += [LOOP.replace("train", f"train{n}").format(body=_flags(3 + n)) for n in range(3)]
    chance, told, seen = random.Random(7), set(), set()
    for _ in range(3):
        chance.shuffle(functions)
        source = "".join(functions)
        told.add(tuple(sorted(_found(source))))
        seen.add(frozenset((path.entry, frozenset(path.decisions.items())) for path in paths(source)))
    assert len(told) == 1
    assert len(seen) == 1
    assert {code for code, _ in told.pop()} >= {"GL101", "GL403"}


def _flags(count: int) -> str:
    return "".join(
        f"        if args.flag{n}:\n            optimizer.zero_grad()\n        else:\n            loss.backward()\n"
        for n in range(count)
    )


def _nested(count: int) -> str:
    rows = [f"{'    ' * (2 + n)}if args.flag{n}:\n" for n in range(count)]
    return "".join(rows) + "    " * (2 + count) + "optimizer.zero_grad()\n"


def _tree(depth: int) -> str:
    """Functions that each call the next one twice."""
    rows = [
        f"def f{n}(optimizer, loss, args):\n    if args.a{n}:\n        f{n + 1}(optimizer, loss, args)\n"
        f"    f{n + 1}(optimizer, loss, args)\n"
        for n in range(depth)
    ]
    return "".join(rows) + f"def f{depth}(optimizer, loss, args):\n    loss.backward()\n    optimizer.step()\n"


LOOP = """
def train(model, optimizer, loader, args):
    for x in loader:
        loss = model(x).mean()
{body}        loss.backward()
        optimizer.step()
"""
EXPLOSIONS = {
    "40 flags": LOOP.format(body=_flags(40)),
    "18 nested flags": LOOP.format(body=_nested(18)),
    "a tree of calls": _tree(20) + LOOP.format(body="        f0(optimizer, loss, args)\n"),
    "8 nested loops": "def train(model, optimizer, loader):\n"
    + "".join(f"{'    ' * (n + 1)}for x{n} in loader:\n" for n in range(8))
    + "".join(f"{'    ' * 9}{row}\n" for row in ("optimizer.zero_grad()", "model(x0).backward()", "optimizer.step()")),
    "60 trainers": "".join(LOOP.replace("def train", f"def train{n}").format(body=_flags(6)) for n in range(60)),
    "2000 statements": LOOP.format(body="        loss = loss + model(x).mean()\n" * 2000),
}


def test_more_flags_than_paths_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BUDGET", 1_000_000)
    explorer = Explorer(program(LOOP.format(body=_flags(MAX_PATHS + 2))))
    assert len(list(explorer.paths())) == MAX_PATHS
    assert explorer.exhausted == ["3 unusual ways through `train` were not followed"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLOSIONS)
def test_an_explosion_ends_within_the_budget(name: str) -> None:
    parsed = program(EXPLOSIONS[name])
    explorer = Explorer(parsed)
    per_entry: dict[str, int] = {}
    for path in explorer.paths():
        per_entry[path.entry] = per_entry.get(path.entry, 0) + 1
    assert max(per_entry.values(), default=0) <= MAX_PATHS
    assert explorer.left > -PATH_BUDGET, f"spent {FILE_BUDGET - explorer.left} of {FILE_BUDGET}"


def test_each_of_many_flags_is_tried_both_ways_while_the_budget_lasts() -> None:
    source = LOOP.format(body=_flags(10))
    tried = {(key, value) for path in paths(source) for key, value in path.decisions.items()}
    assert {(f"args.flag{n}", value) for n in range(10) for value in (True, False)} <= tried


def test_a_run_that_is_out_of_budget_tells_what_it_saw() -> None:
    found = paths(EXPLOSIONS["8 nested loops"])
    assert found
    assert names(found[0])[:3] == ["Zero", "Backward", "Step"]


def _chain(count: int, update: str) -> str:
    """Functions that each call two of those behind them: a tree of calls that is far larger than the file."""
    calls = (
        f"def g{n}(m, o, x):\n    g{n + 1}(m, o, x)\n    g{min(n * 2 + 3, count)}(m, o, x)\n" for n in range(count)
    )
    return "".join(calls) + f"def g{count}(m, o, x):\n{update}"


@pytest.mark.slow
def test_twice_the_functions_that_call_each_other_take_little_more_than_twice_the_steps() -> None:
    update = "    m(x).mean().backward()\n    o.step()\n    o.zero_grad()\n"
    taken = []
    for count in (100, 200, 400):
        explorer = Explorer(program(_chain(count, update)))
        assert list(explorer.paths())
        taken.append(explorer.steps)
    assert all(more <= 2.35 * less for less, more in itertools.pairwise(taken)), taken


def test_functions_that_all_call_each_other_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f{n}" for n in range(30)]
    calls = "\n".join(f"    {name}(loss)" for name in names)
    source = "\n".join(f"def {name}(loss):\n{calls}" for name in names)
    source += "\ndef last(loss, optimizer):\n    f0(loss)\n    loss.backward()\n    optimizer.step()\n"
    asked: list[str] = []
    original = module._loops_over_batches

    def counting(program: Module, function: s.Def) -> bool:
        asked.append(function.name)
        return original(program, function)

    monkeypatch.setattr(module, "_loops_over_batches", counting)
    assert paths(source)
    starts = asked.count("last")
    assert starts
    assert len(asked) <= starts * (len(names) + 1)
