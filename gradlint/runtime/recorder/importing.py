"""Watches modules that are not loaded yet: they are patched right after the user's code has imported them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

Patch = Callable[["Recorder", Any], None]


class Imports(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find a module, and is told when that has been run."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._wanted: dict[str, list[Patch]] = {}
        self._looking: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        self.recorder.patches.also(lambda: sys.meta_path.remove(self))

    def when(self, name: str, patch: Patch) -> None:
        """Patch a module now if it is loaded, else as soon as it is."""
        if name in sys.modules:
            self._patch(sys.modules[name], patch)
        else:
            self._wanted.setdefault(name, []).append(patch)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._wanted or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        except (ImportError, ValueError):
            return None  # whoever looks next says so in the usual way
        finally:
            self._looking.discard(fullname)
        loader: Any = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for patch in self._wanted[fullname]:
                self._patch(module, patch)

        loader.exec_module = exec_module
        return spec

    def _patch(self, module: Any, patch: Patch) -> None:
        with self.recorder.guard(f"the import of {module.__name__}"):
            patch(self.recorder, module)
