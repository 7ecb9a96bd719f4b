"""Runs are cut where their loop turns, and what repeats is folded."""

from __future__ import annotations

from gradlint.runtime.page.iterations import iterations
from gradlint.runtime.page.lanes import ORDER, Cell, Fold, cells, folded, kind_of, lane_of
from gradlint.runtime.page.words import Places
from gradlint.runtime.recording import KINDS, Place, Raised, Recording, Stepped, Zeroed
from gradlint.runtime.verdicts import Side
from tests.runtime.page_examples import ACCUMULATION, AMP, SCRIPT, Run, accumulation, amp, gan


def kinds(side: Side, sources: dict[str, str] | None = None) -> list[str]:
    """Each iteration as a word: z f b y u c s p l for zero, forward, backward, sync, unscale, clip, step, …"""
    letters = {"sync": "y", "update": "p", "schedule": "l"}
    recording = side.main
    assert recording is not None
    found = iterations(recording, Places(side.sources if sources is None else sources, SCRIPT))
    return ["".join(letters.get(h.KIND, h.KIND[0]) for h in i.happenings) for i in found]


def loop(source: str, turns: list[str]) -> Side:
    """A run that goes through the given events; every line that is needed stands in the source."""
    run = Run(source)
    run.optimizer("o1", "SGD")
    for events in turns:
        for event in events:
            match event:
                case "z":
                    run.zero()
                case "f":
                    run.forward()
                case "b":
                    run.backward(1.0)
                case "c":
                    run.clip(1.0)
                case _:
                    run.step(1.0, "optimizer.step")
    return run.side()


def test_all_that_is_shown_has_a_lane() -> None:
    everything = [kind(index) for index, kind in enumerate(KINDS.values())]
    found = iterations(Recording(1, happenings=everything), Places({}, SCRIPT), range(len(everything)))
    lanes = {lane_of(h) for i in found for h in i.happenings}
    assert "loader" in lanes
    assert lanes <= set(ORDER)


def test_a_canonical_loop() -> None:
    side, _ = amp(fixed=True, steps=3)
    assert kinds(side) == ["zfbucspl"] * 3


def test_lines_are_enough_where_the_source_is_not_known() -> None:
    side, _ = amp(fixed=True, steps=3)
    assert kinds(side, {}) == ["zfbucspl"] * 3


def test_a_window_of_micro_batches_is_one_iteration() -> None:
    side, _ = accumulation(no_sync=True, windows=2)
    assert kinds(side) == ["fbfbfbfbyycsz"] * 2


def test_exchanges_stand_behind_the_backward_that_made_them() -> None:
    side, _ = accumulation(no_sync=False, micro=2, windows=1)
    recording = side.main
    assert recording is not None
    assert [h.KIND for h in recording.happenings][1:5] == ["forward", "sync", "sync", "backward"]
    assert kinds(side) == ["fbyyfbyycsz"]


def test_what_stands_behind_the_step_belongs_to_its_iteration() -> None:
    lines = ["for x in y:", "model(inputs)", "loss.backward()", "optimizer.step()", "clip_grad_norm_()"]
    source = "\n    ".join([*lines, "optimizer.zero_grad()"])
    assert kinds(loop(source, ["fbscz"] * 3)) == ["fbscz"] * 3


def test_what_stands_before_it_begins_the_next_one() -> None:
    body = "    optimizer.zero_grad()\n    model(inputs)\n    loss.backward()\n    optimizer.step()\n"
    assert kinds(loop(f"for x in y:\n{body}", ["zfbs"] * 2 + ["zf"])) == ["zfbs", "zfbs", "zf"]


def test_a_step_before_the_backward() -> None:
    body = "    optimizer.zero_grad()\n    optimizer.step()\n    model(inputs)\n    loss.backward()\n"
    assert kinds(loop(f"for x in y:\n{body}", ["zsfb"] * 3)) == ["zsfb"] * 3


def test_a_second_loop_is_not_joined_to_the_first() -> None:
    first = "for x in y:\n    optimizer.zero_grad()\n    model(inputs)\n    loss.backward()\n    optimizer.step()\n"
    run = Run(first + first.replace("optimizer", "fine").replace("model(", "again(").replace("loss", "other"))
    run.optimizer("o1", "SGD")
    for _ in range(2):
        run.zero("optimizer.zero")
        run.forward()
        run.backward(1.0, "loss.backward")
        run.step(1.0, "optimizer.step")
    for _ in range(2):
        run.zero("fine.zero")
        run.forward("again(")
        run.backward(1.0, "other.backward")
        run.step(1.0, "fine.step")
    assert kinds(run.side()) == ["zfbs"] * 4


def test_optimizers_that_take_turns_share_an_iteration() -> None:
    assert kinds(gan()) == ["zfbszfbs"] * 4
    assert kinds(gan(critics=5, turns=2)) == ["zfbs" * 6] * 2


def test_optimizers_one_after_the_other_do_not() -> None:
    run = Run("for x in y:\n    a.backward()\n    a.step()\nfor x in y:\n    b.backward()\n    b.step()\n")
    for name in ("a", "b"):
        run.optimizer(name, "SGD")
        for _ in range(3):
            run.backward(1.0, f"{name}.backward", (name,))
            run.step(1.0, f"{name}.step", name)
    assert kinds(run.side()) == ["bs"] * 6


def test_a_helper_that_does_it_all() -> None:
    """Every frame of the helper is a call of its own; the line in the loop stays the same."""
    source = "def train(x):\n    loss.backward()\n    optimizer.step()\n\nfor x in y:\n    train(x)\n"
    run = Run(source)
    run.optimizer("o1", "SGD")
    outer = Place(SCRIPT, 6, "<module>", 1)
    for turn in range(3):
        for line, kind in ((2, Zeroed), (3, Stepped)):
            about = {"owner": "o1", "number": turn + 1} if kind is Stepped else {}
            places = (Place(SCRIPT, line, "train", turn + 2), outer)
            run.happenings.append(kind(len(run.happenings), places, ("o1",), **about))  # type: ignore[arg-type]
    assert kinds(run.side()) == ["zs"] * 3


def test_an_exception_is_told_once() -> None:
    run = Run("for x in y:\n    optimizer.step()\n")
    first = run.add(Raised, "step", type="RuntimeError", message="no", during="scaler.step")
    second = run.add(Raised, "step", type="RuntimeError", message="no")
    run.add(Raised, "step", type="KeyError", message="no")
    for marked, kept in ((), first), ((second,), second), ((first, second), first):
        (iteration,) = iterations(run.recording(), Places({}, SCRIPT), marked)
        assert [h.index for h in iteration.happenings] == [kept, 2]
    assert kind_of(run.happenings[first]) == "step"
    assert kind_of(run.happenings[second]) == "error"


def test_nothing_happened() -> None:
    assert iterations(Recording(1), Places({}, SCRIPT)) == []


def test_only_a_set_up() -> None:
    run = Run(AMP)
    run.zero()
    assert kinds(run.side()) == ["z"]


def shape(text: str) -> str:
    """`(ab)3c`."""

    def told(part: Cell[str] | Fold[str]) -> str:
        return part.first if isinstance(part, Cell) else f"({''.join(map(told, part.passage))}){part.count}"

    return "".join(told(part) for part in folded(text, lambda letter: letter))


def test_repetitions_are_folded() -> None:
    assert shape("fbfbfbfbs") == "(fb)4s"
    assert shape("zfbfbfbcs") == "z(fb)3cs"
    assert shape("fbfbs") == "fbfbs"  # twice is not worth a bracket
    assert shape("fbyys") == "fb(y)2s"
    assert shape("fbyyyfbyyyfbyyys") == "(fb(y)3)3s"
    assert shape("abcabcabcabd") == "(abc)3abd"
    assert shape("") == ""
    assert shape("a" * 1000) == "(a)1000"


def test_a_fold_stands_for_all_that_it_folds() -> None:
    parts = folded("fbyyfbyyfbyys", lambda letter: letter)
    assert [("".join(cell.items)) for cell in cells(parts)] == ["fff", "bbb", "y" * 6, "s"]
    assert sum(len(cell.items) for cell in cells(parts)) == 13


def test_two_rounds_of_folding() -> None:
    assert shape(("zfbfbfbs" * 3) + "e") == "(z(fb)3s)3e"


def test_a_script_that_was_named_from_where_one_stood() -> None:
    for script in ("train.py", "project/train.py", "./train.py"):
        places = Places({SCRIPT: ACCUMULATION, "/home/me/project/lib/train.py.txt": ""}, script)
        assert places.name(script) == places.name(SCRIPT) == "train.py"
        assert places.name("/home/me/project/lib/model.py") == "lib/model.py"


def test_names_of_files() -> None:
    places = Places({SCRIPT: ACCUMULATION}, SCRIPT)
    assert places.name(SCRIPT) == "train.py"
    assert places.name("/home/me/project/src/model.py") == "src/model.py"
    assert places.name("/opt/lib/python/trainer.py") == "…/python/trainer.py"
    assert places.name("C:\\code\\deep\\train.py") == "…/deep/train.py"
    assert places.name("train.py") == "train.py"
    assert places.source("train.py", 5) == "(loss / 4).backward()"
    assert places.source("nowhere.py", 5) == ""
    assert places.source(SCRIPT, 5000) == ""
