"""A case: a script with one mistake, and the measure that shows the mistake in a run of it, and shows it gone."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gradlint.config.reading import ConfigError, unknown
from gradlint.config.selectors import expand
from gradlint.model import Category
from gradlint.registry import by_code
from gradlint.runtime.prove.observed import Run


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


def case(
    about: str,
    *,
    updates: int,
    window: int = 1,
    ranks: int = 1,
    reference: bool = True,
    keep: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    torch: tuple[int, int] = (2, 1),
) -> Callable[[Callable[[Run], Measured]], Case]:
    """Makes a case of the function that measures it."""
    return lambda measure: Case(about, measure, updates, "", window, ranks, reference, keep, needs, torch)


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
