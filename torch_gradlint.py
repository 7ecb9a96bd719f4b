"""The command, under a name that is only ours.

Another distribution on the package index is called `gradlint`, for another purpose, with a package and a command of
that name. Where both are installed, the one that came last has replaced files of the other, and whoever leaves takes
shared files along. So the command starts here, in a module that both cannot have, and says so where `gradlint` is not
ours.
"""

from __future__ import annotations

import sys

NAME = "torch-gradlint"
_FOREIGN = "gradlint"
_USAGE = 2


def main() -> None:
    """`torch-gradlint`, and `gradlint`."""
    try:
        from gradlint.cli import main as command
    except Exception as error:  # what is imported in the place of ours may fail in any way
        told = clash()
        if told is None:
            raise
        print(f"gradlint: error: {told} ({type(error).__name__}: {error})", file=sys.stderr)
        sys.exit(_USAGE)
    command()


def is_ours() -> bool:
    """Whether the package `gradlint` that is imported here is the one of this distribution."""
    import gradlint

    return getattr(gradlint, "DISTRIBUTION", None) == NAME


def foreign() -> str | None:
    """The other distribution that is installed here: its name, version, and what it says it is for."""
    from importlib import metadata  # slow, and only needed where something is wrong

    try:
        found = metadata.metadata(_FOREIGN)
    except metadata.PackageNotFoundError:
        return None
    summary = " ".join(found["Summary"].split()).rstrip(".") if "Summary" in found else ""
    return f"`{_FOREIGN}` {found['Version']}" + (f" ({summary})" if summary else "")


def clash() -> str | None:
    """Why ours cannot work, with the way out; None where nothing speaks for another distribution."""
    other = foreign()
    if other is not None:
        return (
            f"another distribution, {other}, is installed here and has the same files as {NAME}. "
            f"Install them apart (`uvx {NAME} check` needs no environment), or keep ours: "
            f"`pip uninstall {_FOREIGN}`, then `pip install --force-reinstall --no-deps {NAME}`"
        )
    try:
        if is_ours():
            return None
    except Exception:
        pass
    return (
        f"files of {NAME} are missing or replaced, as when a distribution called `{_FOREIGN}` was installed or removed "
        f"here: `pip install --force-reinstall --no-deps {NAME}` brings them back"
    )


if __name__ == "__main__":
    main()
