"""Small changes of one expression: another text, an argument more, another name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Event, Site
    from gradlint.rewrite.bench import Bench


def rewrite(at: Event | Site, code: str, message: str, *, and_at: Site | None = None, and_code: str = "") -> Remedy:
    """Another expression in the place of one, and perhaps of a second one."""

    def act(bench: Bench) -> None:
        bench.replace(at, code)
        if and_at is not None:
            bench.replace(and_at, and_code)

    return Remedy(message, act)


def add_parentheses(at: Site) -> Remedy:
    """`optimizer.step` -> `optimizer.step()`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.calls import call_it

        call_it(bench, at)

    return Remedy("Add the parentheses", act)


def pass_keyword(call: Site, keyword: str, value: str) -> Remedy:
    """`f(x)` -> `f(x, keyword=value)`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.arguments import add_keyword

        add_keyword(bench, call, keyword, value)

    return Remedy(f"Pass `{keyword}={value}`", act)


def rename_function(func: Site, old: str, new: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clipping import rename_function

        rename_function(bench, func, old, new)

    return Remedy(f"Write `{new}`", act)
