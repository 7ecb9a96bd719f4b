"""Answers the conditions that cannot be computed, the same way each time on one path, and remembers them."""

from __future__ import annotations

from collections.abc import Mapping

from gradlint.records import dataclass, field

AMP = "mixed precision is on"


@dataclass(slots=True)
class Oracle:
    """The decisions of one path."""

    forced: Mapping[str, bool] = field(default_factory=dict)
    #: what was asked, in order, with the usual answer
    asked: dict[str, bool] = field(default_factory=dict)
    #: `x == "a"` was answered yes: then `x == "b"` is no
    equal: dict[str, str] = field(default_factory=dict)

    def decide(self, key: str, usual: bool, *, fork: bool = True) -> bool:
        if fork:
            self.asked.setdefault(key, usual)
        return self.forced.get(key, self.asked.get(key, usual))

    def decide_equal(self, left: str, right: str, usual: bool, *, fork: bool = True) -> bool:
        """Whether `left == right`, two texts of which the second is a constant."""
        key = f"{left} == {right}"
        if key not in self.forced and any(yes and k.startswith(f"{left} == ") for k, yes in self.forced.items()):
            return False
        known = self.equal.get(left)
        answer = self.forced.get(key, self.asked.get(key, known == right if known is not None else usual))
        if fork:
            self.asked.setdefault(key, answer)
            if answer:
                self.equal.setdefault(left, right)
        return answer


def alternatives(oracle: Oracle) -> list[dict[str, bool]]:
    """The paths next to this one: each of them differs by one more decision."""
    found = []
    for key, usual in oracle.asked.items():
        if key not in oracle.forced:
            found.append({**oracle.forced, key: not usual})
    return found
