"""The JSON schema of a configuration, for editors: made from the same description of keys that is read by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gradlint.config.schema import KEYS, SEVERITIES, Key, Kind
from gradlint.config.selectors import ALL, known_codes
from gradlint.registry import HOME, all_rules, by_name

SCHEMA = Path(__file__).resolve().parent / "gradlint.schema.json"

Row = dict[str, Any]
_RULE: Row = {"$ref": "#/definitions/rule"}
_TEXT: Row = {"type": "string", "minLength": 1}
#: of each kind that is the same for all keys of it
_KINDS: dict[Kind, Row] = {
    Kind.SWITCH: {"type": "boolean"},
    Kind.FILE: _TEXT,
    Kind.FOLDER: _TEXT,
    Kind.FOLDERS: {"type": "array", "items": {"type": "string"}},
    Kind.RULES: {"type": "array", "items": _RULE},
    Kind.PATTERNS: {"type": "array", "items": {"type": "string", "pattern": "^(?!!)"}},
    Kind.REQUIREMENT: {"type": "string", "pattern": r"^\s*(?:(?:[<>]=?|[=!~]=|===)\s*)?\d[^<>=!~]*(?:,[^,]+)*$"},
    Kind.VERSION: {"type": "string", "pattern": r"^\d+\.\d+(?:\.\d+)*$"},
    Kind.RULES_BY_PATTERN: {"type": "object", "additionalProperties": {"type": "array", "items": _RULE}},
    Kind.SEVERITY_BY_RULE: {
        "type": "object",
        "propertyNames": _RULE,
        "additionalProperties": {"enum": list(SEVERITIES)},
    },
}


def schema() -> str:
    """The whole file."""
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"{HOME}/blob/main/docs/{SCHEMA.name}",
        "title": "gradlint",
        "description": "The keys of gradlint.toml, .gradlint.toml, and of [tool.gradlint] in pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.about, **_default(key), **_value(key)} for name, key in KEYS.items()},
        "definitions": {
            "rule": {"description": "a code, the beginning of codes, a name, or ALL", "enum": _selectors()}
        },
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _value(key: Key) -> Row:
    if key.kind is Kind.WORD:
        return {"enum": list(key.words)}
    return _options() if key.kind is Kind.OPTIONS_BY_RULE else _KINDS[key.kind]


def _default(key: Key) -> Row:
    """Where it can be written as a value, and not only told."""
    try:
        return {"default": json.loads(key.default)}
    except ValueError:
        return {}


def _selectors() -> list[str]:
    codes = sorted({code[:length] for code in known_codes() for length in range(2, 6)})
    return [ALL, *codes, *by_name()]


def _options() -> Row:
    """The rules that have options, by code and by name."""
    tables = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "properties": {option: _option(default) for option, default in rule.options.items()},
        }
        for rule in all_rules()
        if rule.options
        for name in (rule.meta.code, rule.rule_name())
    }
    return {"type": "object", "additionalProperties": False, "properties": tables}


def _option(default: object) -> Row:
    kind = {bool: "boolean", int: "integer", float: "number", str: "string"}[type(default)]
    bound = {"minimum": 0} if kind in ("integer", "number") else {}
    return {"type": kind, "default": default, **bound}
