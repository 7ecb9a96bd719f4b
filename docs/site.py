"""What mkdocs asks when it builds the site: the rules in the navigation, and links that leave this folder."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

# the command `mkdocs` does not look where it is started
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.pages import INDEX, families
from gradlint.registry import HOME

_LINK = re.compile(r"(?<=\]\()(\.\./[^)\s]*)(?=\))")


def on_config(config: Any) -> Any:
    for entry in config.nav:
        if "Rules" in entry:
            entry["Rules"] = rules()
    return config


def rules() -> list[Any]:
    """The list, and a part for each family."""
    return [
        f"rules/{INDEX}",
        *({c.value: [{rule.rule_name(): f"rules/{rule.meta.code}.md"} for rule in family]} for c, family in families()),
    ]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return _LINK.sub(lambda found: led(found[1], page.file.src_uri), markdown)


def led(target: str, page: str) -> str:
    """A link of a page as it is, or to the repository if it leads out of the documentation."""
    whole = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return target if whole.startswith("docs/") else f"{HOME}/blob/main/{whole}"
