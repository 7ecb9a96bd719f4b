"""Runs a script under the recorder: `python bootstrap.py`, with its orders in the environment. Nobody imports it.

Given arguments, they are the script to run in place of the one that was ordered, and that script's own arguments.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _load_gradlint() -> None:
    """The one that this file is a part of, which need not be installed, nor be the one that is."""
    spec = spec_from_file_location("gradlint", os.path.join(os.path.dirname(_FOLDER), "__init__.py"))
    if spec is not None and spec.loader is not None:
        package = sys.modules["gradlint"] = module_from_spec(spec)
        spec.loader.exec_module(package)


if __name__ == "__main__":
    # Python has put this folder first; the modules in it are nobody's business
    if sys.path and os.path.realpath(sys.path[0] or os.curdir) == os.path.realpath(_FOLDER):
        del sys.path[0]
    _load_gradlint()
    from gradlint.runtime.launch import script

    script.run(sys.argv[1:])
