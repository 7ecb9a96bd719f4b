"""What the process that runs the script is told: a file of JSON, which an environment variable names."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: names the file of the orders; the script's own children inherit it, and are known by it
VARIABLE = "GRADLINT_RUN"
FILE = "orders.json"
#: the exit code of a process in which recording did not even start
TROUBLE = 70


#: the interpreter that runs the script; others that the script starts are let alone (`sitecustomize` looks)
PYTHON_VARIABLE = "GRADLINT_PYTHON"


def this_python() -> str:
    return f"{sys.prefix} {sys.hexversion}"


@dataclass(frozen=True)
class Orders:
    """All that has to be known on the other side."""

    #: where recordings and endings are written
    folder: str
    #: absolute, as the user named it: what `__file__` will be
    script: str
    arguments: tuple[str, ...] = ()
    steps: int = 8
    seed: int = 0
    device: str = "cpu"
    #: a file of the user -> the file whose text runs in its place
    overlay: Mapping[str, str] = field(default_factory=dict)
    #: further folders whose files are the user's own code, though they look installed
    own: tuple[str, ...] = ()
    #: the dotted name to run it under, for scripts with relative imports; "" for a plain script
    module: str = ""
    #: what goes first on sys.path: the script's folder, or the folder that holds its package
    home: str = ""
    #: more folders, to be looked through last
    paths: tuple[str, ...] = ()
    #: GPUs that the script is told of, and that are none: what it puts there lands on the CPU
    pretended: int = 0

    def write(self) -> Path:
        path = Path(self.folder, FILE)
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
        return path


def read(path: str) -> Orders:
    with open(path, encoding="utf-8") as file:
        told: dict[str, Any] = json.load(file)
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
    return Orders(**values)
