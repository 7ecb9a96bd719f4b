"""Words are searched before a file is read: what they miss is never seen, so they must miss nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gradlint import events
from gradlint.events import Backward, Clip, Edit, EditKind, Mark, Opaque, Step, Unscale, Update
from gradlint.facts.settings import clip_settings, second_divisions
from gradlint.knowledge import torch_api
from gradlint.knowledge.pattern import Pattern
from gradlint.knowledge.rows import About, Does, Makes, Row, Setting, Switch, Thing
from gradlint.knowledge.words import EVENT_METHODS, Text, all_rows, needs
from gradlint.paths.explorer import Explorer
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from tests.sampling import spread

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures").glob("*/*.py"))
EVENTS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, events.Event) and kind not in (events.Event, Mark, Opaque)
]


@pytest.mark.parametrize("path", spread(FIXTURES, 20, 100), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_whatever_is_found_has_a_word_in_the_file(path: Path) -> None:
    text = path.read_bytes().decode()
    program = Module(Lowering(ast.parse(text)).body)
    seen = {type(e) for p in Explorer(program).paths() for e in p.events if not _only_perhaps(e)} & set(EVENTS)
    assert [kind.__name__ for kind in seen if not _may_be_in(text, kind)] == []
    if clip_settings(program):
        assert _may_be_in(text, Setting.LIMIT)
    if any(True for _ in second_divisions(program)):
        assert _may_be_in(text, Setting.DIVISION)


def _may_be_in(text: str, about: About) -> bool:
    return any(need.is_in(Text(text.encode(), {})) for need in needs(about))


def words(about: About) -> set[str]:
    return {word.decode() for need in needs(about) for word in need.words}


def _only_perhaps(event: events.Event) -> bool:
    return isinstance(event, Edit) and event.kind is EditKind.PERHAPS


def test_every_event_has_words_and_what_has_none_says_so() -> None:
    assert all(words(kind) for kind in EVENTS)
    for kind in (Opaque, Mark):
        with pytest.raises(ValueError, match="has no words"):
            words(kind)
    with pytest.raises(ValueError, match="no row speaks of"):
        words(Thing.SUBCLASS)


def test_words_come_from_the_rows_of_torch_and_of_frameworks() -> None:
    assert words(Backward) == {"backward", "manual_backward"}
    assert words(Unscale) == {"unscale_"}
    assert words(Update) == {"update"}
    assert {"clip", "clamp_"} <= words(Clip)
    assert "step" in words(Step)
    assert words(Switch.WINDOW) == {"accumulate"}
    assert "DistributedDataParallel" in words(Thing.WRAPPER)
    assert "max_grad_norm" in words(Setting.LIMIT)


@pytest.mark.parametrize(
    ("pattern", "thing"),
    [(torch_api.OPTIMIZER_CLASS, Thing.OPTIMIZER), (torch_api.SCHEDULER_CLASS, Thing.SCHEDULER)],
    ids=["optimizers", "schedulers"],
)
def test_each_class_that_is_known_by_its_name_has_a_word(pattern: Pattern, thing: Thing) -> None:
    names = [name for name in re.findall(r"\w{3,}", pattern.text) if pattern.search(name)]
    assert len(names) > 10
    assert [name for name in names if not any(word in name for word in words(thing))] == []


def test_methods_of_all_frameworks_are_event_methods() -> None:
    own = {name for row in all_rows() if isinstance(row, Does) and row.event is Clip for name in row.methods}
    assert own <= EVENT_METHODS
    assert {"manual_backward", "accumulate", "no_backward_sync", "train_batch", "scale_loss"} <= EVENT_METHODS


@pytest.mark.parametrize("names", [(), ("*",), ("**.*",), ("__call__",), ("a.of",)], ids=str)
def test_a_row_without_a_word_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="no word follows"):
        Does(Backward, *names)


def test_words_may_be_given_and_must_be_long_enough() -> None:
    assert Does(Opaque, "__call__", words=("caler",)).words == {"caler"}
    assert Makes(Thing.OBJECT, "**.*Trainer", "trl.**.*Config").words == {"Trainer", "Config"}
    with pytest.raises(ValueError, match=re.escape("Row('backward'): no word follows")):
        Row(("backward",), words=("bw",))
