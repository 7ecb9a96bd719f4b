"""The pages in a real browser: no error in its console, nothing wider than a phone, and the comforts work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gradlint.runtime.page.monitor import monitor_page
from gradlint.runtime.page.render import write
from gradlint.runtime.page.verification import verification_page
from tests.patience import PATIENCE
from tests.runtime.page_examples import EXAMPLES
from tests.runtime.page_monitors import MONITORS

BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome; none is installed here"),
]

#: opens each page in a frame as wide as a phone (a window cannot be that narrow), and asks it a few things
ASK = """<!doctype html><meta charset="utf-8"><pre id="answer"></pre>
<script>
const answers = {};
for (const name of PAGES) {
  const frame = document.createElement("iframe");
  frame.width = 390; frame.height = 900; frame.src = `${name}.html`;
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement, button = page.getElementById("theme");
    for (const part of page.querySelectorAll("details")) part.open = true;
    const mark = page.querySelector(".event"), tip = page.getElementById("tip");
    const ground = () => frame.contentWindow.getComputedStyle(page.body).backgroundColor;
    const title = mark && mark.querySelector("title").textContent;
    if (mark) mark.querySelector(".hit, path").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    const light = ground();
    const sides = [...page.querySelectorAll(".sides")].map((row) =>
      new Set([...row.children].map((side) => side.getBoundingClientRect().left)).size);
    button.click();
    answers[name] = {
      wide: root.scrollWidth, room: root.clientWidth, light, dark: ground(), button: button.textContent,
      stacked: sides.every((lefts) => lefts === 1), tip: mark ? !tip.hidden && tip.textContent === title : true,
    };
    document.getElementById("answer").textContent = JSON.stringify(answers);
  };
  document.body.append(frame);
}
</script>"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("pages")
    for name, make in EXAMPLES.items():
        write(verification_page(make()), folder / f"{name}.html")
    for name, seen in MONITORS.items():
        write(monitor_page(seen()), folder / f"{name}.html")
    ask = folder / "ask.html"
    ask.write_text(ASK.replace("PAGES", json.dumps([*EXAMPLES, *MONITORS])), encoding="utf-8")
    outcome = _browse(ask, folder / "profile")
    answer = re.search(r'<pre id="answer">(.*?)</pre>', outcome.stdout, re.DOTALL)
    assert answer, outcome.stderr
    return json.loads(unescape(answer.group(1))), outcome.stderr


def _browse(page: Path, profile: Path) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    return subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-quic", f"--user-data-dir={profile}",
            "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


def test_no_page_writes_to_the_console(asked: tuple[dict[str, Any], str]) -> None:
    said = [line for line in asked[1].splitlines() if ":CONSOLE" in line]
    assert said == []


def test_every_page_answers(asked: tuple[dict[str, Any], str]) -> None:
    assert sorted(asked[0]) == sorted([*EXAMPLES, *MONITORS])


@pytest.mark.parametrize("name", [*EXAMPLES, *MONITORS])
def test_on_a_phone_nothing_is_wider_than_the_screen(asked: tuple[dict[str, Any], str], name: str) -> None:
    assert asked[0][name]["wide"] <= asked[0][name]["room"]
    assert asked[0][name]["stacked"]


@pytest.mark.parametrize("name", [*EXAMPLES, *MONITORS])
def test_the_button_turns_the_lights_out_and_marks_tell(asked: tuple[dict[str, Any], str], name: str) -> None:
    answer = asked[0][name]
    assert (answer["light"], answer["dark"]) == ("rgb(247, 248, 249)", "rgb(19, 22, 26)")
    assert answer["button"] == "Light"
    assert answer["tip"]
