"""What an experiment is: a rule's code, a sentence on what was run, and a function that measures rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gradlint.docs.facts import Facts, Row

Value = str | int | float
Measure = Callable[[], Iterator[Row]]

#: Processors add in different orders. In this precision they agree on far more digits than are shown, also after some
#: hundred updates; in float32 they do not. What is about float32 itself, or about autocast, says so.
PRECISION = torch.float64


@dataclass(frozen=True)
class Experiment:
    code: str
    setting: str
    measure: Measure
    dtype: torch.dtype = PRECISION

    def run(self) -> Facts:
        """The same numbers each time: experiments share nothing, not even the state of the random numbers."""
        torch.manual_seed(0)
        torch.set_num_threads(1)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the experiments that are about a warning catch it themselves
                rows = tuple(self.measure())
        finally:
            torch.set_default_dtype(usual)
        return Facts(self.code, self.setting, rows, torch.__version__.partition("+")[0])


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(code: str, setting: str, dtype: torch.dtype = PRECISION) -> Callable[[Measure], Measure]:
    """Registers the experiment of a rule; `dtype` is that of all tensors which ask for no other."""

    def register(measure: Measure) -> Measure:
        if code in EXPERIMENTS:
            raise ValueError(f"{code} has two experiments")
        EXPERIMENTS[code] = Experiment(code, setting, measure, dtype)
        return measure

    return register


def row(what: str, mistake: Value, right: Value) -> Row:
    return Row(what, shown(mistake), shown(right))


def shown(value: Value) -> str:
    """Counts and words as they are, measurements with three digits."""
    if isinstance(value, str | int):
        return str(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.1f}" if 100 <= abs(value) < 1e6 else f"{value:#.3g}"


def listed(values: list[float]) -> str:
    return ", ".join(map(shown, values))


def at_most(value: float, limit: float) -> str:
    """For differences that are rounding: their digits are another machine's business."""
    return f"under {limit:g}" if value < limit else shown(value)


def at_least(value: float, limit: float) -> str:
    """For what has got out of hand: that it has is a fact, how far is chance."""
    return f"over {limit:g}" if value > limit else shown(value)


def outcome(action: Callable[[], object]) -> str:
    """`runs`, or the error that it raises, up to the end of its first sentence."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {_first_sentence(str(error))}"
    return "runs"


def warning(action: Callable[[], object], kind: type[Warning] = UserWarning) -> str:
    """The first warning of the kind, up to the end of its first sentence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    said = [str(w.message) for w in caught if issubclass(w.category, kind)]
    return f"{kind.__name__}: {_first_sentence(said[0])}" if said else "no warning"


def _first_sentence(text: str) -> str:
    return " ".join(text.partition(". ")[0].split()).rstrip(".")
