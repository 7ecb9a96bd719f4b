"""Tells a text that is not finished, or never was code, from one with a mistake in it: a course's blanks, prose."""

from __future__ import annotations

import re

#: `<YOUR CODE HERE>`, `<your-api-key>` where a value should be; no comparison begins with its sign
_ANGLES = re.compile(r"(?:^|[=(,\[{:]|\b(?:return|in|if|and|or|not))\s*<\s*(?:[^\W\d_]|\.{3})[^<>]*>")
_YOURS = re.compile(r"<your\b[^<>]*>", re.IGNORECASE)
_UNDERSCORES = re.compile(r"(?<![A-Za-z0-9])_{3,}(?![A-Za-z0-9])")
#: a line of nothing but dots, where a block should be
_ELIDED = re.compile(r"\.{3}\s*(?:#.*)?")
_DOTS = re.compile(r"\bdef \w+\([^)]*\.\.\.|\w \.{3}(?: |$)|(?:^|\s)\.{3} \w|\u2026")
_MARKS = re.compile(r"\?{2,}|\[(?:blank|fill|your|todo)[^\]]*\]", re.IGNORECASE)
#: a comment that asks for code, at the place or right above it
_ASKS = re.compile(
    r"#.*(?:your[ _]?(?:code|solution|answer|turn|implementation)|todo|fix_?me|fill (?:in|this|me|the)|implement|"
    r"complete (?:this|the|me)|insert (?:your )?code|(?:code|solution) (?:goes )?here|write (?:your|the) )",
    re.IGNORECASE,
)
_ABOVE = 6
#: four words without anything that only code has
_PROSE = re.compile(
    r"\s*(?:[-*•]\s+|\d+[.)]\s+)?"
    r"(?!(?:as|assert|async|await|class|def|del|elif|else|except|exec|for|from|global|if|import|in|is|lambda|match|not|print|"
    r"raise|return|try|while|with|yield)\b)"
    r"[\w'\u2019`*]+[,:]?(?: [\w'\u2019`*/,;:()\"“”.-]+){3,}[.?!:]?\s*"
)
_SHELL = re.compile(
    r"\s*\$ |\s*(?:python3?|pip3?|git|wget|curl|docker|bash|sudo|apt|apt-get|export|kaggle|unzip|tar|torchrun|"
    r"accelerate|jupyter|npm|streamlit|tensorboard|source|conda|nvidia-smi)\s+[-\w./~]"
)
_OPEN = ("never closed", "unterminated", "does not match", "unmatched", "EOF")


def unfinished(text: str, row: int, said: str) -> bool:
    """Whether the place where the parser gave up is a blank to be filled in, or no code at all; `said`: its words."""
    lines = text.splitlines()
    at = min(max(row, 1), len(lines)) - 1 if lines else 0
    line = lines[at] if lines else ""
    code = line.partition("#")[0]
    if _ANGLES.search(code) or _YOURS.search(line) or _UNDERSCORES.search(code) or _MARKS.search(code):
        return True
    if any(word in said for word in _OPEN):
        return False
    if _DOTS.search(code) or _PROSE.fullmatch(line) or _SHELL.match(line):
        return True
    if "expected an indented block" in said and _ELIDED.fullmatch(line):
        return True
    if "expected an indented block" in said or not code.strip() or code.rstrip().endswith(("=", "(", ",", "return")):
        return any(_ASKS.search(each) for each in lines[max(0, at - _ABOVE) : at + 1])
    return _ASKS.search(line) is not None


def has_gradients(data: bytes) -> bool:
    """Whether there is training in a text that cannot be read."""
    return any(word in data for word in (b".backward(", b"zero_grad", b"clip_grad", b"GradScaler", b"optimizer.step"))
