"""Finds every rule of the `rules` folder; adding a rule edits no list."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from gradlint.rule import Rule

_PACKAGE = "gradlint.rules"


@functools.cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, by code."""
    package = _rules_package()
    found: list[type[Rule]] = []
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{_PACKAGE}.{info.name}")
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


def _rules_package() -> ModuleType:
    """The installed `gradlint.rules`, or the checkout's top-level `rules` folder under that name."""
    if _PACKAGE not in sys.modules and importlib.util.find_spec(_PACKAGE) is None:
        folder = Path(__file__).resolve().parent.parent / "rules"
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise RuntimeError(f"no rules found: neither the package {_PACKAGE} nor {folder}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        spec.loader.exec_module(module)
    return importlib.import_module(_PACKAGE)
