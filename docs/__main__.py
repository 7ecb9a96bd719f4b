"""`python -m docs`: writes what is made from the rules, and from what was measured; `--check` tells what is stale."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from docs import hooks, pages, picture, reference, schema
from docs.table import placed, rule_table
from gradlint.docs.pages import all_facts
from gradlint.registry import all_rules

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs", description="Documentation that is made, not written.")
    parser.add_argument("--check", action="store_true", help="tell what is stale instead of writing it")
    parser.add_argument("--measure", action="store_true", help="run all proofs anew, not only new ones")
    options = parser.parse_args(arguments)
    if not options.check:
        measure(everything=options.measure)
    found = dict(stale())
    for path, text in found.items():
        if not options.check:
            _write(path, text)
    names = ", ".join(os.path.relpath(path, ROOT) for path in found)
    if not found:
        print("all is up to date")
    else:
        print(f"stale: {names}; run: python -m docs" if options.check else f"wrote {names}")
    return 1 if options.check and found else 0


def stale() -> Iterator[tuple[Path, str | None]]:
    """What is not on the disk as it should be; None: it should not be there."""
    for path, text in _wanted():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text
    wanted = pages.pages()
    yield from ((path, None) for path in sorted(pages.FOLDER.glob("*.md")) if path.name not in wanted)
    drawn = picture.picture()
    if picture.words(drawn) != picture.words(picture.PICTURE.read_text(encoding="utf-8")):
        yield picture.PICTURE, drawn


def _wanted() -> Iterator[tuple[Path, str]]:
    readme, contributing = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
    yield readme, placed(readme.read_text(encoding="utf-8"), "rules", rule_table())
    yield contributing, placed(contributing.read_text(encoding="utf-8"), "hooks", hooks.tables())
    yield from ((pages.FOLDER / name, text) for name, text in pages.pages().items())
    yield schema.SCHEMA, schema.schema()
    yield reference.REFERENCE, reference.reference()


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def measure(*, everything: bool) -> None:
    """Runs the proofs of rules that have no table yet; torch is needed only then."""
    kept = {} if everything else all_facts()
    missing = [rule.meta.code for rule in all_rules() if rule.meta.code not in kept and not rule.meta.unshowable]
    if missing:
        from docs import facts

        facts.write({**kept, **facts.tables(missing)})
        all_facts.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
