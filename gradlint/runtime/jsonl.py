"""A recording as files of JSON lines: one for each process, written by the recorder, read back with `load`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from gradlint.runtime.recording import KINDS, Gradient, Happening, Parameter, Place, Recording

#: the names of the files: events-<pid>.jsonl
PREFIX = "events-"


def encode(happening: Happening) -> str:
    """One line of JSON, without what has its default value."""
    return json.dumps({"kind": happening.KIND, **_plain(happening)})


def decode(line: str) -> Happening:
    data: dict[str, Any] = json.loads(line)
    kind = KINDS[data.pop("kind")]
    if "places" in data:
        data["places"] = tuple(Place(**p) for p in data["places"])
    for name in ("gradients", "before"):
        if name in data:
            data[name] = tuple(Gradient(**g) for g in data[name])
    for name in ("rows", "units"):
        if name in data:
            data[name] = tuple(
                Parameter(**{**row, "places": tuple(Place(**p) for p in row.get("places", ()))}) for row in data[name]
            )
    if data.get("exhausted_by") is not None:
        data["exhausted_by"] = Place(**data["exhausted_by"])
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
    return kind(**values)


def header(recording: Recording) -> str:
    """The first line of a file."""
    about = {f.name: getattr(recording, f.name) for f in dataclasses.fields(recording) if f.name != "happenings"}
    return json.dumps({"kind": "header", **about})


def load(folder: Path) -> list[Recording]:
    """The recordings of all processes, by rank; a line that was cut off when its process was killed is left out."""
    found = [recording for path in sorted(folder.glob(f"{PREFIX}*.jsonl")) if (recording := _read(path)) is not None]
    found.sort(key=lambda r: (r.rank, -len(r.happenings), r.pid))
    return found


def _read(path: Path) -> Recording | None:
    recording: Recording | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote
        if data.get("kind") == "header":
            data.pop("kind")
            if recording is None:
                recording = Recording(**data)
            else:  # said again when more is known: the rank after init_process_group, notes
                recording = dataclasses.replace(Recording(**data), happenings=recording.happenings)
        elif recording is not None:
            recording.happenings.append(decode(line))
    return recording


def _default(about: dataclasses.Field[Any]) -> object:
    if about.default is not dataclasses.MISSING:
        return about.default
    return about.default_factory() if about.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: _plain(getattr(value, f.name)) for f in fields if getattr(value, f.name) != _default(f)}
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value
