"""What a run of a case leaves behind, on each rank: the recording, and every gradient that a step used, entry by entry.

Plain data, without torch: the worker writes it, the measures read it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from gradlint.runtime.jsonl import decode
from gradlint.runtime.recording import Happening, Stepped

H = TypeVar("H", bound=Happening)

Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class Job:
    """A script to run."""

    id: str
    script: str
    #: micro-batches that one update stands for
    window: int = 1
    #: work out the gradient of the large batch for each step
    reference: bool = True
    #: variables of the script to look at when it is over
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Used:
    """The gradients that one step was about to use, as they were stored."""

    #: counts the script's optimizers from 0
    optimizer: int
    gradient: list[float]
    #: parameters that have a gradient, of how many
    present: int
    total: int
    #: that of one large batch of the samples that this update stands for
    reference: list[float] | None = None


@dataclass(slots=True)
class Observed:
    """One run of a script in one process."""

    id: str
    rank: int = 0
    device: str = "cpu"
    #: `RuntimeError: …`, if the script raised
    error: str = ""
    #: it was not the script that failed
    failure: str = ""
    used: list[Used] = field(default_factory=list)
    #: all weights at the end, of the model that the lab has made
    weights: list[float] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: category and text
    warnings: list[tuple[str, str]] = field(default_factory=list)
    #: in the order in which they came, each as a line of a recording
    happenings: list[str] = field(default_factory=list)

    def line(self) -> str:
        return json.dumps(asdict(self))


def read(line: str) -> Observed:
    data: dict[str, Any] = json.loads(line)
    data["used"] = [Used(**used) for used in data["used"]]
    data["warnings"] = [(category, message) for category, message in data["warnings"]]
    return Observed(**data)


class Run:
    """What all ranks saw of one script, and the questions that measures ask of it."""

    def __init__(self, ranks: Sequence[Observed], wanted: int) -> None:
        self.ranks = sorted(ranks, key=lambda observed: observed.rank)
        #: updates that it is meant to make
        self.wanted = wanted
        self._happenings = [[decode(line) for line in observed.happenings] for observed in self.ranks]

    @property
    def first(self) -> Observed:
        return self.ranks[0]

    @property
    def device(self) -> str:
        return self.first.device

    @property
    def error(self) -> str:
        """What the script raised, on whichever rank."""
        return next((observed.error for observed in self.ranks if observed.error), "")

    @property
    def exception(self) -> str | None:
        """Its type alone."""
        return self.error.partition(":")[0] or None

    @property
    def failure(self) -> str:
        return next((observed.failure for observed in self.ranks if observed.failure), "")

    def of(self, kind: type[H], rank: int = 0) -> Iterator[H]:
        return (h for h in self._happenings[rank] if isinstance(h, kind))

    def happenings(self, rank: int = 0) -> list[Happening]:
        return self._happenings[rank]

    @property
    def updates(self) -> int:
        """Steps of the first optimizer that the scaler did not skip, on the rank that made the fewest."""
        return min(sum(used.optimizer == 0 for used in observed.used) for observed in self.ranks)

    @property
    def complete(self) -> bool:
        """It came to its end, with all of its updates."""
        return not self.error and self.updates == self.wanted

    def count(self, kind: type[Happening]) -> int:
        return sum(1 for _ in self.of(kind))

    def norms(self, optimizer: int = 0) -> list[float]:
        """Of the gradients at each step."""
        return [norm(used.gradient) for used in self.first.used if used.optimizer == optimizer]

    def compared(self, *, limit: float = math.inf, optimizer: int = 0) -> Compared:
        """The gradients at each step, on every rank, with those of the large batch (clipped at the limit)."""
        pairs = [
            (used.gradient, clipped(used.reference, limit))
            for observed in self.ranks
            for used in observed.used
            if used.optimizer == optimizer and used.reference is not None
        ]
        return Compared(pairs)

    def micro_batches(self) -> list[int]:
        """How many backwards each update is made of."""
        return [g.backwards for step in self.of(Stepped) for g in step.before if g.optimizer == step.owner]

    def disagreement(self) -> float:
        """How far the weights of the ranks are apart at the end, in lengths of the weights."""
        first = self.first.weights
        return max((relative(observed.weights, first) for observed in self.ranks[1:]), default=0.0)


class Compared:
    """Gradients at steps beside those that they should have been."""

    def __init__(self, pairs: Sequence[tuple[Vector, Vector]]) -> None:
        self._pairs = pairs

    @property
    def errors(self) -> list[float]:
        """Length of the difference, in lengths of the right one."""
        return [relative(found, wanted) for found, wanted in self._pairs]

    @property
    def ratios(self) -> list[float]:
        return [norm(found) / norm(wanted) for found, wanted in self._pairs]

    @property
    def cosines(self) -> list[float]:
        return [cosine(found, wanted) for found, wanted in self._pairs]

    @property
    def error(self) -> float:
        """The largest; nothing to compare is no agreement."""
        return max(self.errors, default=math.inf)


def norm(vector: Vector) -> float:
    return math.sqrt(math.fsum(x * x for x in vector))


def relative(found: Vector, wanted: Vector) -> float:
    return norm([a - b for a, b in zip(found, wanted, strict=True)]) / (norm(wanted) or math.nan)


def cosine(one: Vector, other: Vector) -> float:
    """0 if one of them is nothing."""
    lengths = norm(one) * norm(other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


def clipped(vector: Vector, limit: float) -> Vector:
    """As a clip by norm should leave it."""
    length = norm(vector)
    return vector if length <= limit else [x * limit / length for x in vector]
