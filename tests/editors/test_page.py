"""docs/editors.md says what is so: its options are the server's, its snippets parse, its links lead somewhere."""

from __future__ import annotations

import json
import re

from gradlint.lsp.workspace import KEYS
from tests.editors.project import PAGE

TEXT = PAGE.read_text("utf-8")


def test_every_option_of_the_server_is_told() -> None:
    table = TEXT[TEXT.index("| option |") : TEXT.index("They go into")]
    rows = re.findall(r"^\|(.*?)\|", table, re.M)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(KEYS)


def test_settings_in_json_parse() -> None:
    blocks = re.findall(r"```json\n(.*?)```", TEXT, re.S)
    assert len(blocks) == 3
    for block in blocks:
        json.loads(block)


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", TEXT, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        if target.startswith("#"):
            assert target[1:] in headings
        elif not target.startswith("https://"):
            assert (PAGE.parent / target).exists(), target
