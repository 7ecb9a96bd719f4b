"""The pages of the rules in docs/rules; these tests fail when they are stale."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs.__main__ as command
from docs import pages, picture
from gradlint.registry import all_rules, rule_url

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "rules"


def _stale() -> list[str]:
    return sorted(path.name for path, _ in command.stale())


@pytest.mark.slow
def test_all_that_is_made_is_up_to_date() -> None:
    assert _stale() == [], "run: python -m docs"


def test_a_page_that_is_missing_changed_or_left_over_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    monkeypatch.setattr(pages, "pages", lambda: {"README.md": "list", "GL101.md": "one", "GL102.md": "two"})
    monkeypatch.setattr(picture, "picture", lambda: picture.PICTURE.read_text(encoding="utf-8"))
    assert command.main([]) == 0
    assert _stale() == []
    (tmp_path / "GL101.md").unlink()
    (tmp_path / "GL102.md").write_text("old", encoding="utf-8")
    (tmp_path / "GL099.md").write_text("gone", encoding="utf-8")
    assert _stale() == ["GL099.md", "GL101.md", "GL102.md"]
    assert command.main(["--check"]) == 1
    assert _stale() == ["GL099.md", "GL101.md", "GL102.md"], "a check writes nothing"
    assert command.main([]) == 0
    assert _stale() == []
    assert not (tmp_path / "GL099.md").exists()


def test_the_addresses_of_rules_lead_to_their_pages() -> None:
    for rule in all_rules():
        assert (FOLDER / rule_url(rule.meta.code).rpartition("/docs/rules/")[2]).exists()


def test_every_rule_is_listed_and_every_link_of_the_list_leads_somewhere() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[(GL\d+)\]\((\S+)\)", text, flags=re.MULTILINE)
    assert linked == [(code, f"{code}.md") for code in sorted(rule.meta.code for rule in all_rules())]
