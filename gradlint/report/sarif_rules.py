"""The rules of a SARIF log: what a code scanning page shows beside a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradlint.docs.pages import page, sections
from gradlint.home import rule_url
from gradlint.model import Severity
from gradlint.registry import by_code
from gradlint.rule import Rule

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "recommendation"}


def descriptors(codes: Sequence[str], severities: Mapping[str, Severity]) -> list[dict[str, object]]:
    """Those that fired, in this order: the pages of all would make every log a megabyte's fraction longer."""
    rules = by_code()
    return [_descriptor(rules[code], severities[code]) for code in codes]


def _descriptor(rule: type[Rule], severity: Severity) -> dict[str, object]:
    code, parts = rule.meta.code, sections(rule)
    why = f"{parts['What it does']}\n\n{parts['Why is this bad?']}"
    return {
        "id": code,
        "name": rule.__name__,
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": f"{rule.summary()} {_one_line(parts['What it does'])}"},
        "help": {"text": f"{rule.summary()}\n\n{why}\n\n{rule_url(code)}", "markdown": page(rule)},
        "helpUri": rule_url(code),
        "defaultConfiguration": {"level": LEVELS[rule.meta.severity]},
        "properties": {
            "tags": ["pytorch", "gradients", rule.meta.category.value.lower()],
            "problem.severity": _PROBLEMS[severity],
            # rules that are off by default are so because they need a second look
            "precision": "high" if rule.meta.default else "medium",
        },
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())
