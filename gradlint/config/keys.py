"""The keys of a configuration, described once: for what is read, what editors complete, and what is documented."""

from __future__ import annotations

import enum
from typing import NamedTuple

SEVERITIES = ("error", "warning", "advice")
PRESETS = ("strict", "default", "quiet")
#: how findings are told; those for people first
FORMATS = (
    "full", "concise", "grouped", "json", "jsonl", "sarif", "github", "gitlab", "junit", "lsp", "markdown", "pylint",
    "rdjson",
)  # fmt: skip


class Kind(enum.Enum):
    """What a value may be."""

    SWITCH = "`true` or `false`"
    WORD = "one of these words"
    FILE = "the name of a file"
    FOLDER = "the name of a folder"
    FOLDERS = "a list of folders"
    RULES = "a list of rules: codes, prefixes, names, or ALL"
    PATTERNS = "a list of patterns"
    #: a requirement such as ">=0.2"
    REQUIREMENT = "versions"
    #: such as "2.4"
    VERSION = "a version"
    RULES_BY_PATTERN = "lists of rules by pattern"
    SEVERITY_BY_RULE = "severities by rule"
    OPTIONS_BY_RULE = "options by rule"


class Key(NamedTuple):
    """One key: what it may hold, what it is for, and what holds without it, as it would be written."""

    kind: Kind
    about: str
    default: str
    example: str
    words: tuple[str, ...] = ()


KEYS = {
    "preset": Key(Kind.WORD, "the rules to start from", '"default"', '"strict"', PRESETS),
    "select": Key(Kind.RULES, "use only these rules", "those of the preset", '["GL1", "missing-zero-grad"]'),
    "extend-select": Key(Kind.RULES, "use these rules, too", "[]", '["missing-clip"]'),
    "ignore": Key(Kind.RULES, "leave these rules out; the narrower choice wins", "[]", '["value-clipping"]'),
    "per-file-ignores": Key(
        Kind.RULES_BY_PATTERN,
        "leave rules out in files of these names or paths; `!` before a pattern means all other files",
        "{}",
        '{ "tests/*" = ["GL4"] }',
    ),
    "severity": Key(Kind.SEVERITY_BY_RULE, "how severe rules are", "the rules' own", '{ value-clipping = "warning" }'),
    "rules": Key(
        Kind.OPTIONS_BY_RULE,
        "options of rules",
        "the rules' own",
        "{ clip-threshold-too-small = { threshold = 0.01 } }",
    ),
    "target-torch": Key(Kind.VERSION, "the oldest torch that you support", "read from your dependencies", '"2.1"'),
    "exclude": Key(
        Kind.PATTERNS, "files and folders to leave out, instead of the usual ones", "the usual", '["legacy"]'
    ),
    "extend-exclude": Key(Kind.PATTERNS, "files and folders to leave out, too", "[]", '["notebooks/*_old.py"]'),
    "force-exclude": Key(Kind.SWITCH, "leave out files that are named on the command line, too", "false", "true"),
    "respect-gitignore": Key(Kind.SWITCH, "leave out what git ignores", "true", "false"),
    "include-markdown": Key(Kind.SWITCH, "check the Python blocks of Markdown files, too", "false", "true"),
    "project": Key(Kind.SWITCH, "follow files into those that they import", "true", "false"),
    "src": Key(Kind.FOLDERS, "further folders in which imports are looked for", "[]", '["lib"]'),
    "baseline": Key(Kind.FILE, "known findings, which are silent", "none", '"gradlint-baseline.json"'),
    "fix": Key(Kind.SWITCH, "apply the safe fixes", "false", "true"),
    "unsafe-fixes": Key(Kind.SWITCH, "apply, or count, the unsafe fixes as well", "false", "true"),
    "fix-only": Key(Kind.SWITCH, "fix, and say nothing about what is left", "false", "true"),
    "show-fixes": Key(Kind.SWITCH, "list what was fixed in each file", "false", "true"),
    "fixable": Key(Kind.RULES, "fix only these rules", '["ALL"]', '["GL1"]'),
    "unfixable": Key(Kind.RULES, "do not fix these rules; the narrower choice wins", "[]", '["unused-suppression"]'),
    "fail-on": Key(Kind.WORD, "the least severity that makes the exit code 1", '"warning"', '"error"', SEVERITIES),
    "output-format": Key(Kind.WORD, "how to tell the findings", '"full"', '"concise"', FORMATS),
    "cache-dir": Key(Kind.FOLDER, "where results are kept", "the user's cache folder", '".gradlint_cache"'),
    "extend": Key(
        Kind.FILE, "another configuration, which holds where this one says nothing", "none", '"../gradlint.toml"'
    ),
    "required-version": Key(Kind.REQUIREMENT, "the versions of gradlint that this is for", "any", '">=0.2"'),
}

#: what people write who know another linter, and what to say to them
NEAR_MISSES = {
    "lint": "there is no table of that name: its keys stand directly in `{table}`",
    "tool": "in this file the keys stand without `[tool.gradlint]`",
    "gradlint": "the keys stand directly in `{table}`",
    "extend-ignore": "`ignore` adds to what is ignored already",
    "extend-fixable": "`fixable` names all that is to be fixed",
    "extend-per-file-ignores": "`per-file-ignores` is the key",
    "external": "it is ruff that has to know our codes: `lint.external = [\"GL\"]` under `[tool.ruff]`",
    "disable": "`ignore` is the key",
    "enable": "`extend-select` is the key",
    "files": "what is checked is named on the command line; `exclude` leaves files out of it",
    "include": "what is checked is named on the command line; `exclude` leaves files out of it",
    "extend-include": "what is checked is named on the command line; `include-markdown` adds Markdown",
    "format": "`output-format` is the key",
    "target-version": "the version of Python does not matter here; `target-torch` is the oldest torch you support",
    "line-length": "gradlint does not look at the length of lines",
    "preview": "rules that are off by default are switched on by `extend-select`, or all by `preset = \"strict\"`",
    "options": "options of a rule stand in `rules`: `[{prefix}rules.clip-threshold-too-small]`",
}  # fmt: skip
