"""The keys of a configuration, described once: for what is read, what editors complete, and what is documented.

A table is checked key by key, and becomes the settings that it describes.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Container, Iterable, Mapping
from math import inf
from os.path import dirname, expanduser, join
from typing import Any, NamedTuple

from gradlint import __version__
from gradlint.config.globs import anchored
from gradlint.config.reading import MOST_PATTERNS, ConfigError, unknown
from gradlint.config.selectors import Layer, Preset, check, expand, preset_named
from gradlint.config.settings import FixChoice, RunChoice, Settings
from gradlint.model import Severity
from gradlint.records import replace
from gradlint.registry import by_code, by_name

Value = bool | int | float | str

#: the command line, where a file would be named
COMMAND_LINE = "--config"

SEVERITIES = ("error", "warning", "advice")
PRESETS = ("strict", "default", "quiet")
#: how findings are told to people; and to programs, by a function of `report` for each
FOR_PEOPLE = ("full", "concise", "grouped")
FOR_PROGRAMS = ("json", "jsonl", "sarif", "github", "gitlab", "junit", "lsp", "markdown", "pylint", "rdjson")
FORMATS = (*FOR_PEOPLE, *FOR_PROGRAMS)


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


def settings_from(table: Mapping[str, object], path: str, *, prefix: str = "", folder: str | None = None) -> Settings:
    """The settings of a parsed `gradlint.toml`, or of the `[tool.gradlint]` table; names in it count from `folder`."""
    reader = _Reader(table, path, prefix, dirname(path) if folder is None else folder)
    reader.refuse_unknown()
    reader.refuse_version()
    return Settings(
        layers=(reader.layer(),),
        per_file_ignores=reader.per_file_ignores(),
        severities=reader.severities(),
        options=reader.rule_options(),
        target_torch=reader.target_torch(),
        root=dirname(path),
        source=path,
        exclude=reader.globs("exclude") if "exclude" in table else None,
        extend_exclude=reader.globs("extend-exclude"),
        include_markdown=bool(reader.switch("include-markdown")),
        project=reader.switch("project") is not False,
        src=reader.folders("src"),
        fixing=FixChoice(*(reader.switch(key) for key in ("fix", "unsafe-fixes", "fix-only", "show-fixes"))),
        run=RunChoice(
            reader.word("fail-on"),
            reader.word("output-format"),
            reader.switch("force-exclude"),
            reader.switch("respect-gitignore"),
            reader.file("cache-dir"),
        ),
        baseline=reader.file("baseline"),
    )


#: keys of which the uppermost configuration that has them decides
_DECIDED = ("per-file-ignores", "target-torch", "exclude", "include-markdown", "project", "src", "baseline")


def over(own: Settings, below: Settings, keys: Container[str]) -> Settings:
    """Settings with these keys over others; what is added, and what is said rule by rule, is kept from both."""
    names = {key: key.replace("-", "_") for key in _DECIDED}
    decided: dict[str, Any] = {name: getattr(own if key in keys else below, name) for key, name in names.items()}
    return replace(
        own,
        layers=(*below.layers, *own.layers),
        severities=(*own.severities, *below.severities),
        options=(*own.options, *below.options),
        extend_exclude=(*below.extend_exclude, *own.extend_exclude),
        fixing=own.fixing.over(below.fixing),
        run=own.run.over(below.run),
        **decided,
    )


class _Reader:
    """Takes typed values out of the table; every complaint names the file and the key."""

    def __init__(self, table: Mapping[str, object], path: str, prefix: str, folder: str) -> None:
        self._table = table
        self._path = path
        self._prefix = prefix
        self._folder = folder

    def refuse_unknown(self) -> None:
        for key in self._table:
            if key in KEYS:
                continue
            if key in NEAR_MISSES:
                where = f"[{self._prefix.rstrip('.')}]" if self._prefix else os.path.basename(self._path)
                hint = NEAR_MISSES[key].format(table=where, prefix=self._prefix)
                raise ConfigError(f"{self._where(key)}: unknown key `{key}`; {hint}")
            raise unknown("key", key, KEYS, where=self._where(key))

    def refuse_version(self) -> None:
        """A configuration may be for other versions than this one."""
        value = self._table.get("required-version")
        if value is None:
            return
        if not isinstance(value, str):
            raise self._wrong('versions as a string, such as ">=0.2"', value, "required-version")
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            wanted = SpecifierSet(value if value[:1] in "<>=!~" else f"=={value}")
        except InvalidSpecifier:
            raise self._wrong('versions, such as ">=0.2"', value, "required-version") from None
        if not wanted.contains(__version__, prereleases=True):
            raise ConfigError(f"{self._where('required-version')}: {value} is wanted, and this is {__version__}")

    def _where(self, *keys: str) -> str:
        return f"{self._path}: {self._prefix}{'.'.join(keys)}"

    def _wrong(self, wanted: str, got: object, *keys: str) -> ConfigError:
        return ConfigError(f"{self._where(*keys)}: must be {wanted}, not {_kind(got)} ({got!r})")

    def _strings(self, value: object, *keys: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self._wrong('a list of strings, such as `["GL1"]`', value, *keys)
        for item in value:
            if not isinstance(item, str):
                raise self._wrong("a list of strings", item, *keys)
        return tuple(value)

    def strings(self, key: str) -> tuple[str, ...]:
        return self._strings(self._table.get(key, []), key)

    def globs(self, key: str) -> tuple[str, ...]:
        found = self.strings(key)
        self._bounded(found, key)
        return excludes(found, self._folder, where=self._where(key))

    def _bounded(self, globs: Iterable[str], key: str) -> None:
        if sum(map(len, globs)) > MOST_PATTERNS:
            raise ConfigError(f"{self._where(key)}: patterns of more than {MOST_PATTERNS:,} characters in all")

    def selectors(self, key: str) -> tuple[str, ...]:
        found = self.strings(key)
        check(found, where=self._where(key))
        return found

    def layer(self) -> Layer:
        return Layer(
            self.selectors("select") if "select" in self._table else None,
            self.selectors("extend-select"),
            self.selectors("ignore"),
            self.selectors("fixable") if "fixable" in self._table else None,
            self.selectors("unfixable"),
            self.preset(),
        )

    def preset(self) -> Preset | None:
        value = self._string("preset")
        return None if value is None else preset_named(value, where=self._where("preset"))

    def _string(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong("a string", value, key)
        return value

    def word(self, key: str) -> str | None:
        value = self._string(key)
        if value is not None and value not in KEYS[key].words:
            raise unknown("value", value, KEYS[key].words, where=self._where(key))
        return value

    def file(self, key: str) -> str | None:
        """A file or folder, as seen from the configuration's folder."""
        value = self._table.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong(KEYS[key].kind.value, value, key)
        return None if value is None else join(self._folder, expanduser(value))

    def folders(self, key: str) -> tuple[str, ...]:
        """Folders, as seen from the configuration's."""
        return tuple(join(self._folder, folder) for folder in self.strings(key))

    def switch(self, key: str) -> bool | None:
        value = self._table.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong("`true` or `false`", value, key)
        return value

    def _section(self, key: str) -> Mapping[str, object]:
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong("a table", value, key)
        return value

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        pairs = []
        section = self._section("per-file-ignores")
        self._bounded(section, "per-file-ignores")
        for pattern, value in section.items():
            selectors = self._strings(value, "per-file-ignores", f'"{pattern}"')
            check(selectors, where=self._where("per-file-ignores", f'"{pattern}"'))
            pairs.append((of_file(pattern, self._folder), selectors))
        return tuple(pairs)

    def severities(self) -> tuple[tuple[str, Severity], ...]:
        labels = {severity.label: severity for severity in Severity}
        pairs = []
        for selector, label in self._section("severity").items():
            check([selector], where=self._where("severity"))
            if not isinstance(label, str):
                raise self._wrong("a string", label, "severity", selector)
            if label not in labels:
                raise unknown("severity", label, labels, where=self._where("severity", selector))
            pairs.append((selector, labels[label]))
        return tuple(pairs)

    def target_torch(self) -> tuple[int, int] | None:
        value = self._table.get("target-torch")
        if value is None:
            return None
        found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*", value) if isinstance(value, str) else None
        if found is None:
            raise self._wrong('a version as a string, such as "2.4"', value, "target-torch")
        return int(found[1]), int(found[2])

    def rule_options(self) -> tuple[tuple[str, tuple[tuple[str, Value], ...]], ...]:
        chosen = []
        for selector, table in self._section("rules").items():
            if not isinstance(table, dict):
                raise self._wrong("a table of options", table, "rules", selector)
            chosen.append((selector, tuple(self._options(selector, table))))
        return tuple(chosen)

    def _options(self, selector: str, table: Mapping[str, object]) -> Iterable[tuple[str, Value]]:
        codes = expand(selector)
        if len(codes) != 1:
            raise unknown("rule", selector, [*by_code(), *by_name()], where=self._where("rules"))
        rule = by_code()[next(iter(codes))]
        for key, value in table.items():
            where = self._where("rules", selector)
            if key not in rule.options:
                if not rule.options:
                    raise ConfigError(f"{where}: unknown option `{key}`; {rule.rule_name()} has no options")
                raise unknown("option", key, rule.options, where=where)
            yield key, self._option(value, rule.options[key], "rules", selector, key)

    def _option(self, value: object, default: Value, *keys: str) -> Value:
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError:
                raise ConfigError(f"{self._where(*keys)}: {str(value)[:9]}… is larger than any number here") from None
        if type(value) is not type(default) or not isinstance(value, Value):
            raise self._wrong(_kind(default), value, *keys)
        if isinstance(value, int | float) and not 0 <= value < inf:
            raise self._wrong("a number that is not negative, and finite", value, *keys)
        return value


def excludes(patterns: Iterable[str], folder: str, *, where: str) -> tuple[str, ...]:
    """Patterns of files that are left out, as whoever looks for files wants them."""
    found = tuple(patterns)
    for pattern in found:
        if pattern.startswith("!"):
            raise ConfigError(
                f"{where}: `{pattern}`: a pattern cannot take files back in; narrow the one that leaves them out"
            )
    return tuple(anchored(pattern, folder) for pattern in found)


def of_file(pattern: str, folder: str) -> str:
    """A pattern of `per-file-ignores`, with its `!`."""
    if pattern.startswith("!"):
        return f"!{of_file(pattern[1:], folder)}"
    return pattern if os.path.isabs(pattern) else anchored(pattern, folder)


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), type(value).__name__)
