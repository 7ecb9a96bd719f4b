"""Finds every rule of the `rules` folder; adding a rule edits no list."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from gradlint.rule import Rule

_PACKAGE = "gradlint.rules"

#: OWNER stands for whoever publishes the repository
HOME = "https://github.com/OWNER/gradlint"


@functools.cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, by code."""
    found: list[type[Rule]] = []
    for name in _module_names(_rules_package()):
        module = importlib.import_module(f"{_PACKAGE}.{name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:
                found.append(value)
    return tuple(sorted(found, key=lambda rule: rule.meta.code))


@functools.cache
def by_code() -> dict[str, type[Rule]]:
    return {rule.meta.code: rule for rule in all_rules()}


@functools.cache
def by_name() -> dict[str, type[Rule]]:
    return {rule.rule_name(): rule for rule in all_rules()}


@functools.cache
def default_codes() -> frozenset[str]:
    """Rules that are on without configuration; a file that does not parse is always worth a line."""
    return frozenset(rule.meta.code for rule in all_rules() if rule.meta.default)


def find(word: str) -> type[Rule] | None:
    """The rule of this code or name, in any case."""
    return by_code().get(word.upper()) or by_name().get(word.lower().replace("_", "-"))


def closest(word: str, words: Iterable[str], cutoff: float) -> str | None:
    """The one of these words that looks most like another one, if any does."""
    import difflib  # costs milliseconds, and only mistakes need it

    return next(iter(difflib.get_close_matches(word, [*words], n=1, cutoff=cutoff)), None)


def _module_names(package: ModuleType) -> list[str]:
    """The modules of the folder; `pkgutil` would ask the same of every importer there is."""
    files = {file for folder in package.__path__ for file in os.listdir(folder)}
    return sorted(file.removesuffix(".py") for file in files if file.endswith(".py") and file != "__init__.py")


def _rules_package() -> ModuleType:
    """The rules beside this package: in it where it is installed, else the checkout's top-level folder.

    Another checkout may be installed under the same name: its rules are never taken.
    """
    if _PACKAGE not in sys.modules:
        home = os.path.dirname(os.path.realpath(__file__))
        places = [os.path.join(home, "rules"), os.path.join(os.path.dirname(home), "rules")]
        folder = next((x for x in places if os.path.isfile(os.path.join(x, "__init__.py"))), places[0])
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None or not os.path.isdir(folder):
            raise RuntimeError(f"no rules found in {' or '.join(places)}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        spec.loader.exec_module(module)
    return sys.modules[_PACKAGE]


def rule_url(code: str) -> str:
    """The page of a rule; `gradlint rule CODE` shows the same offline."""
    return f"{HOME}/blob/main/docs/rules/{code}.md"
