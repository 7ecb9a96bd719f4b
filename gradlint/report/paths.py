"""Names of files as other programs want them: relative to the repository, with slashes, or as addresses."""

from __future__ import annotations

import os

STDIN = "-"


def root_folder(*variables: str) -> str:
    """Where a CI system says its checkout is; else the repository round the current folder, or that folder."""
    for name in variables:
        named = os.environ.get(name)
        if named and os.path.isdir(named):
            return os.path.abspath(named)
    here = folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent
    return folder


def relative(path: str, root: str) -> str:
    """With slashes, from the root; whole if the file lies elsewhere."""
    if path == STDIN:
        return path
    whole = os.path.abspath(path)
    for one, other in ((whole, root), (os.path.realpath(whole), os.path.realpath(root))):
        inside = _inside(one, other)
        if inside is not None:
            return inside.replace(os.sep, "/")
    return whole.replace(os.sep, "/")


def _inside(path: str, folder: str) -> str | None:
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    if os.path.normcase(path).startswith(os.path.normcase(prefix)):
        return path[len(prefix) :]
    return None


def is_absolute(path: str) -> bool:
    """Of what `relative` gives: whether the file lies outside the root."""
    return path.startswith("/") or os.path.isabs(path)


def encoded(path: str) -> str:
    """A relative path as a relative address: to the byte, whatever characters are in it."""
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(os.fsencode(path), safe="/~")  # a colon is quoted: it could be taken for a scheme's


def file_uri(path: str) -> str:
    """The address of a file as editors have it."""
    if path == STDIN:
        return "untitled:stdin"
    whole = os.path.abspath(path).replace(os.sep, "/")
    return f"file://{'' if whole.startswith('/') else '/'}{encoded(whole)}"
