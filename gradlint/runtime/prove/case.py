"""A case: a script with one mistake, what its runs leave behind, and the measure that shows the mistake in it."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gradlint.config.reading import ConfigError, unknown
from gradlint.config.selectors import expand
from gradlint.model import Category
from gradlint.registry import by_code
from gradlint.runtime.lines import decode
from gradlint.runtime.recording import H, Happening, Stepped

Vector = Sequence[float]
#: variables of a worker's environment: where it is to run, and where its ranks meet
DEVICE, MEETING = "GRADLINT_PROVE_DEVICE", "GRADLINT_PROVE_MEETING"


@dataclass(frozen=True, slots=True)
class Script:
    """A script to run."""

    id: str
    #: its name; for the worker, where it was written
    path: str
    text: str = ""
    #: processes that run it together
    ranks: int = 1
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


# -- cases -------------------------------------------------------------------------------------------------------------


def proofs() -> Path:
    """The scripts, a folder for each rule: in this package where it is installed, else the checkout's fixtures."""
    home = Path(__file__).resolve().parents[2]
    return next((x for x in (home / "proofs", home.parent / "fixtures") if x.is_dir()), home / "proofs")


Value = float | int | str | None | list[int] | list[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run in numbers. `mistaken` and `right` are judged apart: a run that is neither proves nothing."""

    numbers: dict[str, Value]
    #: the mistake that the rule speaks of is plainly there
    mistaken: bool
    #: the run did what the script means to do
    right: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Case:
    """A rule's proof: `proof.py` in its folder, and the `measure` that stands in `measure.py` beside it."""

    #: what is measured, in a few words
    about: str
    measure: Callable[[Run], Measured]
    #: optimizer steps that a script without the mistake makes
    updates: int
    #: the rule's; its folder has its name
    code: str = ""
    #: micro-batches of one update
    window: int = 1
    #: processes that train together
    ranks: int = 1
    #: compare with the gradient of the large batch
    reference: bool = True
    #: variables of the script to look at when it is over
    keep: tuple[str, ...] = ()
    #: packages that the script imports beside torch
    needs: tuple[str, ...] = ()
    #: the first version of torch that has what the script uses
    torch: tuple[int, int] = (2, 1)

    @property
    def on_gpu(self) -> str:
        """What is different there; "" if it is the device alone."""
        if self.ranks > 1:
            return "the ranks exchange through NCCL, not gloo, if each has a GPU of its own"
        if by_code()[self.code].meta.category is Category.MIXED_PRECISION:
            return "autocast and scaler are the GPU's own"
        return ""

    @property
    def name(self) -> str:
        return by_code()[self.code].rule_name()

    @property
    def script(self) -> Path:
        return proofs() / self.name.replace("-", "_") / "proof.py"

    @property
    def right(self) -> Path | None:
        """The script put right by hand, for rules that have no fixer."""
        path = self.script.with_name("proof_right.py")
        return path if path.exists() else None


def case(about: str, *, updates: int, **more: Any) -> Callable[[Callable[[Run], Measured]], Case]:
    """Makes a case of the function that measures it; `more` is what `Case` has beside that."""
    return lambda measure: Case(about, measure, updates, **more)


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """By code."""
    folders = {code: proofs() / rule.rule_name().replace("-", "_") for code, rule in sorted(by_code().items())}
    files = {code: folder / "measure.py" for code, folder in folders.items()}
    return tuple(_declared(code, file) for code, file in files.items() if file.exists())


def _declared(code: str, file: Path) -> Case:
    spec = importlib.util.spec_from_file_location(f"gradlint.proofs.{file.parent.name}.measure", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    declared: Case = module.measure
    return replace(declared, code=code)


def chosen(selectors: Iterable[str]) -> tuple[Case, ...]:
    """The cases of these codes, names or prefixes, all if there are none; raises on one that stands for no case."""
    wanted: set[str] = set()
    cases = {case.code: case for case in all_cases()}
    for selector in selectors:
        codes = expand(selector)
        if not codes:
            raise unknown("rule", selector, [*cases, *(case.name for case in cases.values())])
        if codes.isdisjoint(cases):
            raise _unshowable(selector, codes)
        wanted |= codes
    return tuple(case for code, case in cases.items() if code in wanted or not wanted)


def _unshowable(selector: str, codes: Iterable[str]) -> ConfigError:
    names = ", ".join(
        f"{code} {by_code()[code].rule_name()} ({by_code()[code].meta.unshowable})" for code in sorted(codes)
    )
    return ConfigError(
        f"`{selector}`: no run can show {names}; `gradlint prove` without codes runs all that can be shown"
    )
