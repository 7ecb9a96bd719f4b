"""Names of files as other programs want them: relative to the repository, with slashes, or as addresses.

A name may hold what no encoding has: the bytes of one that is no text come to Python as halves of characters, and
Windows and editors can hand over other halves. Such a name is told with `\\udce9` in their place; in an address the
bytes stand as they are.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote_from_bytes

from gradlint.config.reading import folders_up
from gradlint.model import harmless

STDIN = "-"
_HALF = re.compile("[\ud800-\udfff]")
#: halves that stand for no byte
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def writable(name: str) -> str:
    """The name with escapes for what cannot be encoded."""
    return _HALF.sub(_escape, name)


def harmless_lines(text: str) -> str:
    """A text of several lines for a terminal; it may quote what came from anywhere."""
    return "\n".join(map(harmless, text.split("\n")))


def as_bytes(name: str) -> bytes:
    """As the system has it, as far as it could."""
    return os.fsencode(_NO_BYTE.sub(_escape, name))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "backslashreplace").decode()


def root_folder(*variables: str) -> str:
    """Where a CI system says its checkout is; else the repository round the current folder, or that folder."""
    for name in variables:
        named = os.environ.get(name)
        if named and os.path.isdir(named):
            return os.path.abspath(named)
    here = os.getcwd()
    return next((folder for folder in folders_up(here) if os.path.exists(os.path.join(folder, ".git"))), here)


def relative(path: str, root: str) -> str:
    """With slashes, from the root; whole if the file lies elsewhere."""
    if path == STDIN:
        return path
    whole = os.path.abspath(path)
    for one, other in ((whole, root), (_real(whole), _real(root))):
        inside = _inside(one, other)
        if inside is not None:
            return inside.replace(os.sep, "/")
    return whole.replace(os.sep, "/")


def named(path: str, root: str) -> str:
    """The same in words that can be written."""
    return writable(relative(path, root))


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no name that a file here could have, so no link leads there
        return path


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
    return quote_from_bytes(as_bytes(path), safe="/~")  # a colon is quoted: it could be taken for a scheme's


def file_uri(path: str) -> str:
    """The address of a file as editors have it."""
    if path == STDIN:
        return "untitled:stdin"
    whole = os.path.abspath(path).replace(os.sep, "/")
    return f"file://{'' if whole.startswith('/') else '/'}{encoded(whole)}"
