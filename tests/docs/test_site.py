"""The documentation hangs together: every page has its place, and every link of it leads somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import site
from docs.pages import GUIDES, anchor
from gradlint.registry import HOME, all_rules
from tests.patience import PATIENCE

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *PAGES]


def _config() -> Any:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def _files(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _files(inner)


def _prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}


def test_every_page_is_in_the_navigation_once() -> None:
    config = _config()
    told = [*_files(config["nav"]), *_files(site.rules())]
    assert sorted(told) == sorted(path.relative_to(DOCS).as_posix() for path in PAGES)
    assert [entry for entry in config["nav"] if "Rules" in entry] == [{"Rules": []}], "docs/site.py fills it"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        if not target.startswith(("http://", "https://")):
            name, _, place = target.partition("#")
            file = path.parent / name if name else path
            assert file.exists(), target
            assert not place or place in _anchors(file), target


def test_links_that_leave_the_documentation_lead_to_the_repository() -> None:
    assert site.led("../benchmarks/README.md", "compare.md") == f"{HOME}/blob/main/benchmarks/README.md"
    assert site.led("../verify.md", "guides/nan.md") == "../verify.md"
    assert site.led("../right-loops.md#plain", "rules/GL101.md") == "../right-loops.md#plain"


def test_every_rule_leads_to_its_family_and_to_the_guides_that_lead_to_it() -> None:
    for rule in all_rules():
        page = (DOCS / "rules" / f"{rule.meta.code}.md").read_text(encoding="utf-8")
        linked = set(re.findall(r"\]\((GL\d{3})\.md\)", page))
        family = {other.meta.code for other in all_rules() if other.meta.category is rule.meta.category}
        assert family - {rule.meta.code} <= linked
        for guide in GUIDES:
            if f"rules/{rule.meta.code}.md" in (DOCS / guide).read_text(encoding="utf-8"):
                assert f"](../{guide}" in page, guide


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason='pip install -e ".[docs]" for mkdocs')
def test_the_site_builds(tmp_path: Path) -> None:
    """`mkdocs.yml` is strict: a warning fails."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("clip-scaled-gradients" in entry["title"] for entry in found["docs"])
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == len(PAGES) + 1, "and one for addresses that lead nowhere"
    for page in pages:
        fetched = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\" >]+)", page.read_text("utf-8"))
        assert [address for address in fetched if not address.startswith(HOME)] == [], page
