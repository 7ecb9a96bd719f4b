"""The pages of the rules in docs/rules; these tests fail when they are stale."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest

import docs.__main__ as command
from docs import hooks, pages, picture, reference, schema
from gradlint.registry import all_rules, rule_url

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "rules"


def _stale() -> list[str]:
    return sorted(path.name for path, _ in command.stale())


@pytest.mark.slow
def test_all_that_is_made_is_up_to_date() -> None:
    assert _stale() == [], "run: python -m docs"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that the command writes has its place in this folder, and is up to date there but for the pages."""
    for name in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    for module, name in ((schema, "SCHEMA"), (reference, "REFERENCE"), (picture, "PICTURE")):
        monkeypatch.setattr(module, name, Path(shutil.copy(getattr(module, name), tmp_path)))
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "measure", lambda everything: None)
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "rules")
    monkeypatch.setattr(pages, "pages", lambda: {"README.md": "list", "GL101.md": "one", "GL102.md": "two"})
    monkeypatch.setattr(picture, "picture", functools.cache(lambda: picture.PICTURE.read_text(encoding="utf-8")))
    monkeypatch.setattr(hooks, "tables", functools.cache(hooks.tables))
    assert command.main([]) == 0
    return tmp_path


def test_what_is_missing_changed_or_left_over_is_stale(elsewhere: Path) -> None:
    assert _stale() == []
    before = (elsewhere / "CONTRIBUTING.md").read_bytes()
    (elsewhere / "CONTRIBUTING.md").write_bytes(before.replace(b"| `on_zero(", b"| `on_nothing("))
    (elsewhere / "rules" / "GL101.md").unlink()
    (elsewhere / "rules" / "GL102.md").write_text("old", encoding="utf-8")
    (elsewhere / "rules" / "GL099.md").write_text("gone", encoding="utf-8")
    stale = ["CONTRIBUTING.md", "GL099.md", "GL101.md", "GL102.md"]
    assert _stale() == stale
    assert command.main(["--check"]) == 1
    assert _stale() == stale, "a check writes nothing"
    assert command.main([]) == 0
    assert _stale() == []
    assert (elsewhere / "CONTRIBUTING.md").read_bytes() == before
    assert not (elsewhere / "rules" / "GL099.md").exists()


def test_the_addresses_of_rules_lead_to_their_pages() -> None:
    for rule in all_rules():
        assert (FOLDER / rule_url(rule.meta.code).rpartition("/docs/rules/")[2]).exists()


def test_every_rule_is_listed_and_every_link_of_the_list_leads_somewhere() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[(GL\d+)\]\((\S+)\)", text, flags=re.MULTILINE)
    assert linked == [(code, f"{code}.md") for code in sorted(rule.meta.code for rule in all_rules())]
