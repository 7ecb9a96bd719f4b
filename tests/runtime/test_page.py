"""The page of `gradlint verify`: what it says, that it says it safely, and that it stands alone."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gradlint.model import Cell, Severity
from gradlint.registry import by_code, rule_url
from gradlint.runtime.health import Symptom
from gradlint.runtime.page.monitor import monitor_page
from gradlint.runtime.page.render import asset, prose, write
from gradlint.runtime.page.verification import headline, verification_page
from gradlint.runtime.recording import Recording, Stepped, Zeroed
from gradlint.runtime.verdicts import Cure, Side, Verdict, Verification
from tests.patience import PATIENCE
from tests.runtime.page_examples import EXAMPLES, SCRIPT, amp, amp_verification
from tests.runtime.page_monitors import MONITORS
from tests.runtime.page_reading import Element, read
from tests.sampling import spread

PAGES = [*EXAMPLES, *MONITORS]


@functools.cache
def shown(name: str) -> tuple[str, Element]:
    text = made(name)
    return text, read(text)


def made(name: str) -> str:
    return verification_page(EXAMPLES[name]()) if name in EXAMPLES else monitor_page(MONITORS[name]())


@pytest.fixture(scope="module")
def amp_page() -> Element:
    return read(verification_page(amp_verification()))


#: the only pages that links lead to
RULES = {rule_url(code) for code in by_code()}


@pytest.mark.parametrize("name", spread(list(PAGES), 6))
def test_is_well_formed_stands_alone_and_is_always_the_same(name: str) -> None:
    text, page = shown(name)
    assert text == made(name)
    assert text.startswith("<!doctype html>")
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("h1").text.strip()
    for element in page.walk():
        for attribute in ("src", "srcset", "action", "data", "poster", "xlink:href"):
            assert attribute not in element.attributes, f"<{element.tag} {attribute}> could load something"
        link = element.attributes.get("href", "#")
        known = link in RULES if element.tag == "a" else element.tag == "link" and link == "data:,"
        assert link.startswith("#") or known
        assert not [a for a in element.attributes if a.startswith("on")], f"<{element.tag}> runs code by attribute"
    assert not re.search(r"@import|url\(", page.one("style").text)
    assert len(page.all("script")) == 1


@pytest.mark.parametrize("name", PAGES)
def test_headings_go_down_one_by_one_and_ids_are_unique(name: str) -> None:
    _, page = shown(name)
    levels = [int(e.tag[1]) for e in page.walk() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link.attributes["href"][1:] in ids or link.attributes["href"] in RULES


@pytest.mark.parametrize("name", PAGES)
def test_pictures_have_words_and_tables_have_headings(name: str) -> None:
    _, page = shown(name)
    for svg in page.all("svg"):
        hidden = svg.attributes.get("aria-hidden") == "true"
        assert hidden or (svg.attributes["role"] == "img" and len(svg.attributes["aria-label"]) > 10)
    for table in page.all("table"):
        assert all(th.attributes.get("scope") in ("col", "row") for th in table.all("th"))
        assert len({len(row.all("th")) + len(row.all("td")) for row in table.all("tr")}) == 1


@pytest.mark.parametrize("name", ["hostile", "hostile-monitor"])
def test_what_users_write_stays_text(name: str) -> None:
    _, page = shown(name)
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert page.text.count("<script>alert(1)</script>") >= 5
    assert "<script>alert(1)</script>" in page.one("header").text


def test_only_its_own_script_may_run() -> None:
    text = verification_page(amp_verification())
    policy = next(m.attributes["content"] for m in read(text).all("meta") if "http-equiv" in m.attributes)
    assert policy.startswith("default-src 'none'")
    assert re.search(r"script-src 'sha256-[\w+/]{43}='", policy)
    assert "</" not in asset("page.js")
    assert "</" not in asset("page.css")


def test_terminal_colours_and_control_characters_are_left_out() -> None:
    text = verification_page(EXAMPLES["failed"]())
    assert "FileNotFoundError: data.csv</pre>" in text
    odd = Verification("a\x00b\x1b[31mc\ud800\u202e.py", failure="\x07bell")
    text = verification_page(odd)
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x1b\u202e]", text)
    assert "a\ufffdbc\ufffd\ufffd.py" in text


def test_head(amp_page: Element) -> None:
    head = amp_page.one("section", "head")
    assert head.one("h1").text == "2 confirmed, 1 refuted, 1 not shown; the fix cured 2"
    about = {d.one("dt").text: d.one("dd").text for d in head.one("dl").all("div")}
    assert about == {
        "Device": "cpu", "Steps": "8", "Ranks": "1", "Seed": "0", "PyTorch": "2.13.0", "Ran for": "2.4 s + 2.4 s",
    }  # fmt: skip
    assert "a scaler made for cuda was run on the CPU" in head.text
    assert amp_page.one("header").one("span", "command").text == "gradlint verify train.py -- --epochs 3"


def test_evidence_table(amp_page: Element) -> None:
    rows = amp_page.one("table", "evidence").one("tbody").all("tr")
    assert [row.one("span", "rule").text for row in rows] == [
        "GL201 clip-scaled-gradients", "GL105 clip-threshold-too-small", "GL304 dropped-last-window",
        "GL406 scheduler-before-optimizer",
    ]  # fmt: skip
    clip, only, missed, _ = rows
    assert clip.one("p", "place").text == "train.py:10 · see iteration 1"
    assert clip.one("code", "line").text == "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
    before, after = clip.all("td")
    assert "confirmed" in before.text
    assert "clipped at a true norm of 1.5e-05 where 1 was asked for" in before.text
    assert "cured" in after.text
    assert "clipped at a true norm of 1 in 8 of 8 steps" in after.text
    assert [bool(row.all("span", "only")) for row in rows] == [False, True, False, False]
    assert "seen only in the run" in only.text
    assert "not shown" in missed.text
    assert "GL209" in amp_page.one("ul", "unshowable").text


def test_iterations_show_lanes_marks_and_source_lines(amp_page: Element) -> None:
    pictures = amp_page.all("svg", "lanes")
    assert len(pictures) == 16
    lanes = [t.text for t in pictures[0].all("text", "lane")]
    assert lanes == ["zero", "forward", "backward", "unscale", "clip", "step", "update", "schedule"]
    before, after = pictures[:2]
    assert before.attributes["aria-label"] == (
        "Iteration 1, before the fix: zero, forward, backward, clip (GL201 GL105), step, update, schedule"
    )
    assert [t.text for t in before.all("text", "code")] == ["GL201", "GL105"]
    assert len(before.all("polygon", "wrong")) == 1
    assert [t.text for t in before.all("text", "none")] == ["none"]
    assert [t.text for t in after.all("text", "code")] == ["GL201", "GL105"]  # the same statement, cured
    assert len(after.all("rect", "cured")) == 2  # the shape and the band
    assert len(after.all("circle", "added")) == 1  # the unscale_ that the fix put in
    pointers = amp_page.all("ul", "pointers")[0].all("li")
    assert [p.text for p in pointers] == [
        "!GL201, GL105 wrong here: train.py:10 torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
    ]


def test_tooltips_tell_place_source_norm_and_scale(amp_page: Element) -> None:
    clip = next(t.text for t in amp_page.all("title") if t.text.startswith("GL201 clip-scaled"))
    assert clip.splitlines()[2:] == [
        "clip_grad_norm_ to 1, returned 7.1e+05, changed the gradients",
        "train.py:10",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        "norm before: 7.1e+05 (scaled by 65536, before the clip) = 10.8 in true units",
        "norm after: 1 (scaled by 65536, after the clip) = 1.53e-05 in true units",
    ]


def test_numbers_below_the_pictures(amp_page: Element) -> None:
    lists = amp_page.all("dl", "tallies")[:2]
    before, after = ({d.one("dt").text: d.one("dd").text for d in part.all("div")} for part in lists)
    assert before == {"norm before the clip": "10.8", "norm at the step": "1.53e-05", "max_norm": "1", "scale": "65536"}
    assert after == {**before, "norm at the step": "1"}
    assert [d.one("dt").text for d in lists[0].all("div", "differs")] == ["norm at the step"]


def test_alike_iterations_are_folded_away(amp_page: Element) -> None:
    folded = amp_page.all("details", "more")
    assert [d.one("summary").text for d in folded if d.all("section", "iteration")] == [
        "Iterations 4–8: the same events in the same order as in iteration 2"
    ]
    assert [s.attributes["id"] for s in amp_page.all("section", "iteration")] == [f"iteration-{n}" for n in range(1, 9)]


def test_plots_have_limits_skips_and_odd_values(amp_page: Element) -> None:
    norms, rates, scale = amp_page.all("figure", "plots")
    assert norms.one("h3").text == "Gradient norm"
    assert [li.text for li in norms.one("ul", "legend").all("li")] == [
        "max_norm 1", "limit that really acted: max_norm / scale", "before the clip", "at the step", "NaN or Inf",
        "skipped by the scaler",
    ]  # fmt: skip
    before, after = norms.all("svg", "plot")
    assert before.all("path", "alarm")
    assert not after.all("path", "alarm")
    assert {t.text for t in before.all("text", "oddtext")} == {"Inf, NaN"}
    assert "log scale" in before.text
    assert before.all("path", "skip")
    assert [li.text for li in rates.one("ul", "legend").all("li")] == ["group 0", "group 1", "skipped by the scaler"]
    assert scale.one("h3").text == "Scale"


def test_accumulation_is_folded_and_synchronisation_has_its_lane() -> None:
    page = read(verification_page(EXAMPLES["accumulation"]()))
    before, after = page.all("svg", "lanes")[:2]
    assert [t.text for t in before.all("text", "times")] == ["× 3"]
    assert [t.text for t in before.all("text", "beside")] == ["×2", "×2"]
    assert before.attributes["aria-label"].endswith(
        "forward × 3, backward × 3, sync × 6 (GL501), forward, backward, sync × 2, clip, step, zero"
    )
    assert after.attributes["aria-label"].endswith(
        "forward × 3, backward × 3, forward, backward, sync × 2 (GL501), clip, step, zero"
    )
    tallies = [d.text for d in page.all("dl", "tallies")[0].all("div")]
    assert "backwards4" in tallies
    assert "exchanges between ranks8" in tallies


def test_several_optimizers_have_letters() -> None:
    page = read(verification_page(EXAMPLES["wgan"]()))
    assert [li.text for li in page.one("ul", "players").all("li")] == [
        "Aoptimizer_d (Adam)", "Boptimizer_g (Adam)",
    ]  # fmt: skip
    first = page.all("svg", "lanes")[0]
    assert [t.text for t in first.all("text", "sign")] == ["A", "A", "A", "B", "AB", "B"]
    assert [t.text for t in first.all("text", "times")] == ["× 5"]
    assert [f.one("h3").text for f in page.all("figure", "plots")] == [
        "Gradient norm · optimizer_d (Adam)", "Gradient norm · optimizer_g (Adam)",
    ]  # fmt: skip


def test_a_run_that_raised_ends_with_a_cross() -> None:
    page = read(verification_page(EXAMPLES["raising"]()))
    before, after = page.all("svg", "lanes")[:2]
    assert len(before.all("path", "raised")) == 1
    assert before.attributes["aria-label"].endswith("unscale, unscale (GL202)")
    assert "unscale (GL202), clip" in after.attributes["aria-label"]
    assert "the run ended earlier" in page.text
    assert page.one("dl", "about").text.count("0 before, 8 after the fix") == 1


def test_a_failure_is_shown_as_the_scripts_own() -> None:
    page = read(verification_page(EXAMPLES["failed"]()))
    assert page.one("h1").text == "The script failed"
    assert "script's own traceback" in page.one("section", "failure").text
    assert "No event was recorded" in page.text


def test_without_the_fixed_copy_there_is_one_column() -> None:
    verification = replace(amp_verification(), after=None)
    verification.findings = [replace(j, after_fix=Cure.NO_FIX, after="") for j in verification.findings]
    verification.runtime_only = []
    page = read(verification_page(verification))
    assert [th.text for th in page.one("table", "evidence").one("thead").all("th")] == ["Finding", "The run"]
    assert "After the fix" not in page.text
    assert page.one("h1").text == "1 confirmed, 1 refuted, 1 not shown"


@pytest.mark.parametrize(
    ("verdict", "cure", "said"),
    [
        (Verdict.CONFIRMED, Cure.CURED, "1 confirmed; the fix cured 1"),
        (Verdict.CONFIRMED, Cure.NOT_CURED, "1 confirmed; the fix cured nothing"),
        (Verdict.CONFIRMED, Cure.NO_FIX, "1 confirmed"),
        (Verdict.REFUTED, Cure.NO_FIX, "Nothing confirmed: 1 refuted"),
        (Verdict.NOT_SHOWN, Cure.NO_FIX, "Nothing confirmed: 1 not shown"),
    ],
)
def test_headline(verdict: Verdict, cure: Cure, said: str) -> None:
    finding = replace(amp_verification().findings[0], verdict=verdict, after_fix=cure)
    assert headline(Verification(SCRIPT, findings=[finding])) == said


def test_odd_recordings() -> None:
    """Nothing but a zero_grad, marks that point nowhere, happenings without a place."""
    judged = [replace(j, marks=(10_000,), marks_after=(-1,)) for j in amp_verification().findings]
    side = Side([Recording(1, happenings=[Zeroed(0)])])
    page = read(verification_page(Verification("train.py", findings=judged, before=side, after=Side())))
    assert page.all("svg", "lanes")[0].attributes["aria-label"] == "Iteration 1, before the fix: zero"
    assert "Iteration 1, without a step" in page.text


@pytest.mark.slow
def test_a_long_run_stays_small() -> None:
    before, _ = amp(fixed=False, steps=600)
    after, _ = amp(fixed=True, steps=600)
    text = verification_page(Verification(SCRIPT, before=before, after=after))
    assert len(text) < 600_000
    assert "560 more iterations not drawn." in text


def test_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write(verification_page(amp_verification()), path)
    assert path.read_text(encoding="utf-8") == verification_page(amp_verification())
    assert os.listdir(path.parent) == ["report.html"]


def test_colours_can_be_read() -> None:
    """Text on what it stands on, in light and in dark: 4.5 to 1 and more."""
    colours = dict(re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\)", asset("page.css")))
    grounds = {"ink": ("panel", "ground", "stripe"), "quiet": ("panel", "ground", "stripe"), "accent": ("panel",)}
    grounds |= {name: ("panel", f"{name}-soft") for name in ("wrong", "cured", "open", "calm")}
    grounds |= {"on": ("p0", "p1", "p2", "p3", "p4", "wrong", "cured")}
    for text, backs in grounds.items():
        for back in backs:
            for theme in (0, 1):
                pair = colours[text].split(", ")[theme], colours[back].split(", ")[theme]
                assert _contrast(*pair) >= 4.5, f"{text} on {back}: {_contrast(*pair):.2f}"


def test_messages_show_code_as_code() -> None:
    assert prose("call `f()` first") == "call <code>f()</code> first"
    assert prose("a ` alone <b>") == "a ` alone &lt;b&gt;"
    assert prose("`a` and ` b") == "<code>a</code> and ` b"


@pytest.mark.slow
def test_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from gradlint.runtime.page.verification import verification_page;"
        "from gradlint.runtime.page.monitor import monitor_page;"
        "from gradlint.runtime.verdicts import Verification; from gradlint.runtime.monitor.data import MonitorData;"
        "pages = verification_page(Verification('a.py')), monitor_page(MonitorData('Net', 'SGD', 1));"
        "print(*('</html>' in page for page in pages))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert outcome.stdout.split() == ["True", "True"], outcome.stderr


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_fix_is_shown_line_by_line(amp_page: Element) -> None:
    (change,) = amp_page.all("figure", "change")
    assert change.one("figcaption").text == "train.py"
    assert [line.text.strip() for line in change.all("span", "plus")] == ["+    scaler.unscale_(optimizer)"]
    assert not change.all("span", "minus")
    assert not read(verification_page(EXAMPLES["empty"]())).all("figure", "change")


def test_codes_lead_to_the_pages_of_their_rules(amp_page: Element) -> None:
    links = {link.text: link.attributes["href"] for link in amp_page.all("a", "code")}
    assert links["GL201"] == rule_url("GL201")


def test_every_rank_is_shown() -> None:
    verification = EXAMPLES["accumulation"]()
    (first,) = verification.before.recordings[:1]
    other = replace(first, rank=1)
    steps = [h for h in other.happenings if isinstance(h, Stepped)]
    other.happenings = [replace(h, weights=(2.0, 3.0)) if h in steps else h for h in other.happenings]
    first.happenings = [replace(h, weights=(1.0, 3.0)) if h in steps else h for h in first.happenings]
    verification.before.recordings = [first, other]
    page = read(verification_page(verification))
    plot = next(figure for figure in page.all("figure", "plots") if "by rank" in figure.one("h3").text)
    assert [li.text for li in plot.one("ul", "legend").all("li")] == ["rank 0", "rank 1"]
    rows = [[cell.text for cell in row.all("td")] for row in page.all("table", "numbers")[0].one("tbody").all("tr")]
    assert [row[-1] for row in rows] == ["yes", "no"]
    assert rows[0][0] == str(first.steps)
    alone = read(verification_page(EXAMPLES["amp"]()))
    assert not any("by rank" in figure.one("h3").text for figure in alone.all("figure", "plots"))


def test_what_else_the_run_shows() -> None:
    symptom = Symptom("no-gradient", Severity.WARNING, "`head.weight` has no gradient", SCRIPT, 3, 8, "head.weight")
    verification = Verification(SCRIPT, before=EXAMPLES["amp"]().before, health=[symptom])
    page = read(verification_page(verification))
    assert page.one("h1").text == "Nothing to confirm, but 1 thing looks wrong in the run"
    (line,) = page.one("ul", "unshowable").all("li")
    assert "no gradient" in line.text
    assert "step 8" in line.text
    assert "train.py:3" in line.text
    assert "The run showed nothing wrong" not in page.text


def test_a_run_without_a_step_vouches_for_nothing() -> None:
    page = read(verification_page(Verification(SCRIPT)))
    assert page.one("h1").text == "Nothing was judged: no optimizer step was taken"


def test_lines_of_a_notebook_are_told_by_cell() -> None:
    verification = EXAMPLES["amp"]()
    verification.cells = {SCRIPT: (Cell(2, 1, 5), Cell(4, 6, 9))}
    page = read(verification_page(verification))
    assert "train.py:cell 4:5" in page.one("table", "evidence").text
