"""Patterns mean what a simple matcher says, and none of them takes long: one that does never comes to an end here."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradlint.config.globs import one_of
from gradlint.runner.files import GitIgnore

_ONE = {"?": "ab.", "[ab]": "ab", "[!a]": "b.", "[^ab]": "."}


def _reference(glob: str, name: str) -> bool:
    """All places of the name that can be reached, one step of the pattern after the other: nothing is tried twice."""
    reached = {0}
    at = 0
    while at < len(glob) and reached:
        first = min(reached)
        begins = at == 0 or glob[at - 1] == "/"
        if begins and glob.startswith("**/", at):
            reached |= {place + 1 for place in range(first, len(name)) if name[place] == "/"}
            at += 3
        elif begins and glob[at:] == "**":
            reached = {len(name)} if first < len(name) else set()
            at += 2
        elif glob[at] == "*":
            for place in range(first, len(name)):
                if place in reached and name[place] != "/":
                    reached.add(place + 1)
            at += 1
        else:
            step = next((step for step in _ONE if glob.startswith(step, at)), glob[at])
            members = _ONE.get(step, step)
            reached = {place + 1 for place in reached if place < len(name) and name[place] in members}
            at += len(step)
    return len(name) in reached


_steps = st.lists(st.sampled_from(["a", "b", ".", "/", "*", "**/", "/**/", "**", *_ONE]), max_size=8).map("".join)
_globs = st.builds(
    lambda head, body, times, tail: head + body * times + tail, _steps, _steps, st.integers(0, 30), _steps
)
_parts = st.text("ab./", max_size=8)
_names = st.builds(
    lambda head, body, times, tail: head + body * times + tail, _parts, _parts, st.integers(0, 60), _parts
)


@pytest.mark.slow
@given(_globs, _names)
@example("*a" * 30 + "b", "a" * 300)
@example("**/a/" * 30 + "b", "a/" * 300)
@example("**/*a*a*b/" * 10 + "a", "aaaa/" * 100)
@example("*?" * 30 + "b", "a" * 300)
def test_patterns_match_as_a_simple_matcher_says(glob: str, name: str) -> None:
    assert (one_of([glob]).fullmatch(name) is not None) == _reference(glob, name)


@pytest.mark.slow
@given(st.lists(_globs, max_size=5), _names)
def test_many_patterns_match_as_each_of_them(globs: list[str], name: str) -> None:
    assert (one_of(globs).fullmatch(name) is not None) == any(_reference(glob, name) for glob in globs)


def test_an_ignore_file_of_many_stars_is_answered() -> None:
    ignore = GitIgnore("**/a/" * 30 + "b\n" + "*a" * 30 + "b\n")
    assert ignore.decision("a/" * 300 + "c.py", "a" * 300 + ".py", False) is None


def test_brackets_without_an_end_are_plain() -> None:
    assert one_of(["[" * 50_000]).fullmatch("[" * 50_000)
