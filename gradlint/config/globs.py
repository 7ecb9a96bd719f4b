"""Glob patterns as regular expressions, with git's meaning of `*`, `**`, `?` and `[…]`."""

from __future__ import annotations

import re

_CLASS = r"\[(!|\^)?(\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]"
_POSIX = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:punct:]": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"),
    "[:xdigit:]": "0-9a-fA-F",
}


def translate(glob: str) -> str:
    """A regular expression (to be used with fullmatch) for a path with forward slashes."""
    out: list[str] = []
    i = 0
    while i < len(glob):
        char = glob[i]
        at_start = i == 0 or glob[i - 1] == "/"
        if at_start and glob.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 3
        elif at_start and glob[i:] == "**":
            out.append(".+")
            i += 2
        elif char == "*":
            while i < len(glob) and glob[i] == "*":
                i += 1
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
            i += 1
        elif char == "\\" and i + 1 < len(glob):
            out.append(re.escape(glob[i + 1]))
            i += 2
        elif char == "[" and (found := re.compile(_CLASS).match(glob, i)):
            out.append(_character_class(found))
            i = found.end()
        else:
            out.append(re.escape(char))
            i += 1
    return "".join(out)


def _character_class(found: re.Match[str]) -> str:
    body = found[2]
    for name, members in _POSIX.items():
        body = body.replace(name, members)
    # `[` , `&&`, `||` and `~~` would mean sets of sets to `re` one day; a first `]` is a member to git
    body = body.replace("[", r"\[").replace("&&", r"&\&").replace("||", r"|\|").replace("~~", r"~\~")
    if body.startswith("]"):
        body = "\\" + body
    if body.startswith("^"):
        body = "\\" + body
    expression = f"[^{body}/]" if found[1] else f"(?!/)[{body}]"
    try:
        re.compile(expression)
    except re.error:  # such as the range `[z-a]`, which matches nothing in git either
        return r"(?!)"
    return expression
