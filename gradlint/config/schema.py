"""Checks a configuration table key by key and builds the settings it describes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os.path import dirname, join

from gradlint.config.reading import MOST_PATTERNS, ConfigError, unknown
from gradlint.config.selectors import Layer, Preset, check, expand, preset_named
from gradlint.config.settings import FixChoice, Settings
from gradlint.model import Severity
from gradlint.registry import by_code, by_name

KEYS = (
    "preset",
    "select",
    "ignore",
    "extend-select",
    "exclude",
    "extend-exclude",
    "include-markdown",
    "project",
    "src",
    "per-file-ignores",
    "severity",
    "target-torch",
    "rules",
    "fix",
    "unsafe-fixes",
    "fix-only",
    "show-fixes",
    "fixable",
    "unfixable",
    "baseline",
)

Value = bool | int | float | str


def settings_from(table: Mapping[str, object], path: str, *, prefix: str = "") -> Settings:
    """The settings of a parsed `gradlint.toml`, or of the `[tool.gradlint]` table."""
    for key in table:
        if key not in KEYS:
            raise unknown("key", key, KEYS, where=f"{path}: {prefix}{key}")
    reader = _Reader(table, path, prefix)
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
        project=bool(reader.switch("project")),
        src=reader.folders("src"),
        fixing=FixChoice(*(reader.switch(key) for key in ("fix", "unsafe-fixes", "fix-only", "show-fixes"))),
        baseline=reader.baseline(),
    )


class _Reader:
    """Takes typed values out of the table; every complaint names the file and the key."""

    def __init__(self, table: Mapping[str, object], path: str, prefix: str) -> None:
        self._table = table
        self._path = path
        self._prefix = prefix

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
        return found

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
        value = self._table.get("preset")
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._wrong("a string", value, "preset")
        return preset_named(value, where=self._where("preset"))

    def baseline(self) -> str | None:
        """The baseline's file, as seen from the configuration's folder."""
        value = self._table.get("baseline")
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong("the name of a file", value, "baseline")
        return None if value is None else join(dirname(self._path), value)

    def folders(self, key: str) -> tuple[str, ...]:
        """Folders, as seen from the configuration's."""
        return tuple(join(dirname(self._path), folder) for folder in self.strings(key))

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
            pairs.append((pattern, selectors))
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
                return float(value)
            except OverflowError:
                raise ConfigError(f"{self._where(*keys)}: {str(value)[:9]}… is larger than any number here") from None
        if type(value) is not type(default) or not isinstance(value, Value):
            raise self._wrong(_kind(default), value, *keys)
        return value


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), type(value).__name__)
