"""Answers the conditions that cannot be computed, the same way each time on one path, and remembers them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from gradlint.records import dataclass, field

AMP = "mixed precision is on"
#: an answer that can bring events, or keep them from happening
NOW = -1

_ORDER: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(slots=True)
class Oracle:
    """The decisions of one path."""

    forced: Mapping[str, bool] = field(default_factory=dict)
    #: what was asked, in order, with the usual answer
    asked: dict[str, bool] = field(default_factory=dict)
    #: the number of the first event to which the answer can matter
    since: dict[str, int] = field(default_factory=dict)
    #: `x == "a"` was answered yes: then `x == "b"` is no
    equal: dict[str, str] = field(default_factory=dict)
    #: what was answered of a number: its text, to comparisons and their answers
    numbers: dict[str, list[tuple[str, float, bool]]] = field(default_factory=dict)

    def decide(self, key: str, usual: bool, *, fork: bool = True, since: int = NOW) -> bool:
        """`fork`: both answers are of interest; `since`: where they only matter to the events from this number on."""
        if fork:
            self._ask(key, usual, since)
        return self.forced.get(key, self.asked.get(key, usual))

    def implied(self, left: str, op: str, number: float) -> bool | None:
        """The answer to `left < number` that follows from those before: `n == 1` is no where `n > 1` was yes."""
        known = self.numbers.get(left)
        if not known:
            return None
        limits = {number, *(limit for _, limit, _ in known)}
        tried = {limit + way for limit in limits for way in (-1, -0.5, 0, 0.5, 1)}
        left_over = [x for x in tried if all(_ORDER[o](x, limit) == answer for o, limit, answer in known)]
        answers = {_ORDER[op](x, number) for x in left_over}
        return answers.pop() if len(answers) == 1 else None

    def note(self, left: str, op: str, number: float, answer: bool) -> None:
        self.numbers.setdefault(left, []).append((op, number, answer))

    def _ask(self, key: str, usual: bool, since: int) -> None:
        self.asked.setdefault(key, usual)
        self.since[key] = min(since, self.since.get(key, since))

    def decide_equal(self, left: str, right: str, usual: bool, *, fork: bool = True, since: int = NOW) -> bool:
        """Whether `left == right`, two texts of which the second is a constant."""
        key = f"{left} == {right}"
        if key not in self.forced and any(yes and k.startswith(f"{left} == ") for k, yes in self.forced.items()):
            return False
        known = self.equal.get(left)
        answer = self.forced.get(key, self.asked.get(key, known == right if known is not None else usual))
        if fork:
            self._ask(key, answer, since)
            if answer:
                self.equal.setdefault(left, right)
        return answer


def alternatives(oracle: Oracle, last: int) -> list[dict[str, bool]]:
    """The paths next to this one: each of them differs by one more decision. `last`: the number of its last event."""
    found = []
    for key, usual in oracle.asked.items():
        if key not in oracle.forced and oracle.since[key] <= last:
            found.append({**oracle.forced, key: not usual})
    return found
