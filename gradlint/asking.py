"""Asks the rules about a file: what stands in it, without following the paths through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from gradlint.facts.file import File
from gradlint.rule import Draft, Rule
from gradlint.subjects import Kind

#: called with a rule (or the name of a part) and the exception it raised
OnCrash: TypeAlias = Callable[[Rule | str, Exception], None]


def about_file(rules: Sequence[Rule], file: File, on_crash: OnCrash) -> Iterator[Draft]:
    """Tells all rules of the file, and gives what those say that need no path."""
    for rule in rules:
        rule.file = file
    asked = _Asked(rules, on_crash)
    yield from asked("on_file")
    for rule in asked.rules("on_call"):
        for call in file.calls(*rule.calls):
            yield from asked.ask(rule, "on_call", call)
    if asked.rules("on_setting"):
        for setting in file.settings:
            for rule in asked.rules("on_setting"):
                if isinstance(setting, rule.configured):
                    yield from asked.ask(rule, "on_setting", setting)
    if asked.rules("on_stack"):
        for stack in file.stacks:
            yield from asked("on_stack", stack)
    yield from _about_operations(asked, file, on_crash)


def _about_operations(asked: _Asked, file: File, on_crash: OnCrash) -> Iterator[Draft]:
    rules = asked.rules("on_operation")
    if not rules:
        return
    from gradlint.facts.tensors import operations

    # divisions are everywhere: they are followed in a file with nothing else only for a rule that is about them
    divisions = any(Kind.DIVIDE in rule.operations and not rule.needs for rule in rules)
    try:
        found = operations(file.program, divisions=divisions)
    except Exception as error:  # what else there is to say is said
        on_crash("numerics", error)
        return
    for operation in found:
        for rule in rules:
            if operation.kind in rule.operations:
                yield from asked.ask(rule, "on_operation", operation)


class _Asked:
    """The rules, by the hooks that they override."""

    def __init__(self, rules: Sequence[Rule], on_crash: OnCrash) -> None:
        self._rules = rules
        self._on_crash = on_crash

    def rules(self, hook: str) -> list[Rule]:
        return [rule for rule in self._rules if hook in rule.hooks]

    def __call__(self, hook: str, *subject: Any) -> Iterator[Draft]:
        for rule in self.rules(hook):
            yield from self.ask(rule, hook, *subject)

    def ask(self, rule: Rule, hook: str, *subject: Any) -> Iterable[Draft]:
        try:
            return list(getattr(rule, hook)(*subject))
        except Exception as error:  # a rule's crash is one reported error; the rest goes on
            self._on_crash(rule, error)
            return ()
