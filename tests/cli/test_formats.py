"""`--output-format` and `--output-file`: which formats there are, and where they go."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from click.shell_completion import ShellComplete

from gradlint.cli import gradlint as group
from gradlint.cli import output
from gradlint.cli.output import Target, targets
from gradlint.config.schema import FOR_PROGRAMS, FORMATS
from tests.cli.conftest import Command
from tests.sources import BROKEN, CLEAN, CLIP_AFTER_STEP


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "GRADLINT_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bad(project: Path) -> Path:
    path = project / "train.py"
    path.write_text(CLIP_AFTER_STEP)
    return path


def _is_valid(name: str, text: str) -> None:
    """Whether a program would take it."""
    if name in ("json", "sarif", "gitlab"):
        json.loads(text)
    elif name in ("jsonl", "lsp"):
        assert [json.loads(line) for line in text.splitlines()] != []
    elif name == "junit":
        ElementTree.fromstring(text.encode())
    elif name == "github":
        assert all(line.startswith("::") for line in text.splitlines())


@pytest.mark.parametrize("name", FOR_PROGRAMS)
def test_a_format_for_programs_is_alone_on_stdout(gradlint: Command, bad: Path, name: str) -> None:
    outcome = gradlint("check", "--output-format", name)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.endswith("\n")
    assert "GL101" in outcome.out
    assert "--fix option" not in outcome.out
    _is_valid(name, outcome.out)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_written_to_a_file(gradlint: Command, bad: Path, name: str) -> None:
    printed = gradlint("check", "--output-format", name).out
    outcome = gradlint("check", "--output-format", f"{name}=out/report")
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == "Found 1 error (1 file checked)"
    assert (bad.parent / "out" / "report").read_text(encoding="utf-8") == printed
    again = gradlint("check", "--output-format", name, "-o", "other", "-q")
    assert (again.code, again.out) == (1, "")
    assert "GL101" in (bad.parent / "other").read_text(encoding="utf-8")


def test_several_formats_at_once(gradlint: Command, bad: Path) -> None:
    plain = gradlint("check").out
    options = ("--output-format", "full", "--output-format", "sarif=a.sarif", "--output-format", "junit=b.xml")
    outcome = gradlint("check", *options)
    assert outcome.out == plain
    _is_valid("sarif", (bad.parent / "a.sarif").read_text(encoding="utf-8"))
    _is_valid("junit", (bad.parent / "b.xml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in FOR_PROGRAMS if name not in ("jsonl", "lsp")])
def test_clean_code(gradlint: Command, project: Path, name: str) -> None:
    (project / "train.py").write_text(CLEAN)
    outcome = gradlint("check", "--output-format", name)
    assert (outcome.code, outcome.err) == (0, "")
    _is_valid(name, outcome.out)


@pytest.mark.parametrize("name", ["jsonl", "lsp", "github"])
def test_clean_code_has_no_lines(gradlint: Command, project: Path, name: str) -> None:
    (project / "train.py").write_text(CLEAN)
    assert gradlint("check", "--output-format", name).out == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("full", "sarif"), "full and sarif would both be printed; write one to a file: --output-format sarif=FILE."),
        (("full=-", "json"), "full and json would both be printed"),
        (("full=x", "json=./x"), "full and json would both be written to ./x."),
        (("sarif=",), "--output-format sarif=: the name of the file is missing."),
        (("sarif=folder",), "folder cannot be written: it is a folder."),
        (("sarif=train.py/x",), "is not a folder."),
        (("sarif=train.py",), "train.py cannot be written: it is a source file, and the report would replace it."),
    ],
)
def test_places_that_cannot_be(gradlint: Command, bad: Path, options: tuple[str, ...], words: str) -> None:
    (bad.parent / "folder").mkdir()
    outcome = gradlint("check", *(word for option in options for word in ("--output-format", option)))
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert not (bad.parent / "x").exists()
    assert bad.read_text() == CLIP_AFTER_STEP


def test_the_same_format_twice_is_one(gradlint: Command, bad: Path) -> None:
    assert len(gradlint("check", "--output-format", "json", "--output-format", "json").json()) == 1


def test_a_file_for_nothing(gradlint: Command, bad: Path) -> None:
    outcome = gradlint("check", "--output-format", "sarif=a.sarif", "--output-file", "b")
    assert outcome.code == 2
    assert "every --output-format names its own file" in outcome.err


def test_an_unknown_format_names_the_nearest(gradlint: Command) -> None:
    outcome = gradlint("check", "--output-format", "sarf=x")
    assert outcome.code == 2
    assert outcome.err == "gradlint: error: --output-format: unknown format `sarf`; did you mean `sarif`?\n"
    assert "valid: `concise`" in gradlint("check", "--output-format", "qqqqq").err


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("locked/new/a.sarif", "locked is read-only."),
        ("locked/old.sarif", "locked/old.sarif cannot be written: it is read-only."),
    ],
)
def test_what_is_read_only_is_told_before_anything_is_done(
    gradlint: Command, bad: Path, monkeypatch: pytest.MonkeyPatch, file: str, words: str
) -> None:
    (bad.parent / "locked").mkdir()
    (bad.parent / "locked" / "old.sarif").write_text("old")
    real = os.access
    # root, as whom tests may run, could write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in os.fspath(path) and real(path, mode))
    outcome = gradlint("check", "--output-format", f"sarif={file}", "--fix")
    assert outcome.code == 2
    assert words in outcome.err
    assert bad.read_text() == CLIP_AFTER_STEP
    assert os.listdir(bad.parent / "locked") == ["old.sarif"]


def test_a_file_that_fails_leaves_nothing_and_the_others_are_written(
    gradlint: Command, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bad.parent / "a.sarif").write_text("old")

    def full_disk(path: str, content: bytes) -> None:
        if path.endswith("a.sarif"):
            raise OSError(28, "No space left on device")
        Path(path).write_bytes(content)

    monkeypatch.setattr("gradlint.cli.output.write_whole", full_disk)
    options = ("--output-format", "concise", "--output-format", "sarif=a.sarif", "--output-format", "junit=b.xml")
    outcome = gradlint("check", "--no-cache", *options)
    assert outcome.code == 2
    assert "a.sarif cannot be written: No space left on device" in outcome.err
    assert "GL101" in outcome.out
    assert (bad.parent / "a.sarif").read_text() == "old"
    _is_valid("junit", (bad.parent / "b.xml").read_text(encoding="utf-8"))


@pytest.mark.skipif(os.name == "nt", reason="needs links and modes")
def test_an_old_report_is_replaced_where_its_link_leads_and_keeps_its_mode(gradlint: Command, bad: Path) -> None:
    (bad.parent / "real").mkdir()
    old = bad.parent / "real" / "report.json"
    old.write_text("old")
    old.chmod(0o640)
    link = bad.parent / "link.json"
    link.symlink_to(old)
    assert gradlint("check", "--output-format", "json", "-o", "link.json").code == 1
    assert link.is_symlink()
    assert len(json.loads(old.read_text())) == 1
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert sorted(path.name for path in old.parent.iterdir()) == ["report.json"]


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_a_device_is_written_to_and_not_replaced(gradlint: Command, bad: Path) -> None:
    assert gradlint("check", "--output-format", "json", "-o", "/dev/null").code == 1
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_files_have_no_colours(gradlint: Command, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    outcome = gradlint("check", "--output-format", "full=report.txt", "--output-format", "concise")
    assert "\x1b[" in outcome.out
    assert "\x1b[" not in (bad.parent / "report.txt").read_text(encoding="utf-8")


def test_the_environment_chooses_until_the_command_line_does(
    gradlint: Command, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADLINT_OUTPUT_FORMAT", "concise sarif=a.sarif")
    assert gradlint("check").out.startswith("train.py:10:9: GL101")
    assert (bad.parent / "a.sarif").exists()
    assert len(gradlint("check", "--output-format", "json").json()) == 1
    monkeypatch.setenv("GRADLINT_OUTPUT_FORMAT", "jason")
    outcome = gradlint("check")
    assert (outcome.code, "did you mean `json`?" in outcome.err) == (2, True)


def test_statistics_know_few_formats(gradlint: Command, bad: Path) -> None:
    outcome = gradlint("check", "--statistics", "--output-format", "sarif")
    assert outcome.code == 2
    assert "--statistics cannot be told as sarif; choose full, concise, grouped or json." in outcome.err
    gradlint("check", "--statistics", "--output-format", "json=a.json")
    assert json.loads((bad.parent / "a.json").read_text()) == [
        {
            "code": "GL101", "name": "clip-after-step", "count": 1, "severities": {"error": 1}, "fixable": True,
            "fixable_count": 1,
        }
    ]  # fmt: skip


def test_a_diff_goes_to_the_file(gradlint: Command, bad: Path) -> None:
    printed = gradlint("check", "--diff").out
    outcome = gradlint("check", "--diff", "-o", "fixes.patch")
    assert (outcome.code, outcome.out) == (1, "")
    assert (bad.parent / "fixes.patch").read_text() == printed != ""
    refused = gradlint("check", "--diff", "--output-format", "sarif=a.sarif")
    assert (refused.code, (bad.parent / "a.sarif").exists()) == (2, False)
    assert "--diff and --output-format FORMAT=FILE cannot be used together" in refused.err


def test_with_fix_the_report_tells_what_is_left(gradlint: Command, bad: Path) -> None:
    (bad.parent / "broken.py").write_text(BROKEN)
    outcome = gradlint("check", "--fix", "--output-format", "full", "--output-format", "jsonl=left.jsonl")
    assert "Found 2 errors (1 fixed, 1 remaining)" in outcome.out
    assert [json.loads(line)["code"] for line in (bad.parent / "left.jsonl").read_text().splitlines()] == ["GL900"]


def test_with_fix_only_a_file_still_tells_what_is_left(gradlint: Command, bad: Path) -> None:
    (bad.parent / "broken.py").write_text(BROKEN)
    outcome = gradlint("check", "--fix-only", "--output-format", "json=left.json")
    assert outcome.out.startswith("Fixed 1 finding in 1 file")
    assert [row["code"] for row in json.loads((bad.parent / "left.json").read_text())] == ["GL900"]
    assert gradlint("check", "--fix-only", "--output-format", "json").out == ""


@pytest.mark.parametrize("name", FOR_PROGRAMS)
def test_stdin(gradlint: Command, project: Path, name: str) -> None:
    outcome = gradlint("check", "-", "--output-format", name, stdin=CLIP_AFTER_STEP)
    assert outcome.code == 1
    assert "GL101" in outcome.out
    _is_valid(name, outcome.out)


def test_stdin_that_is_fixed_keeps_stdout_for_the_text(gradlint: Command, project: Path) -> None:
    outcome = gradlint(
        "check", "-", "--fix", "--stdin-filename", "a b.py", "--output-format", "sarif=a.sarif", stdin=CLIP_AFTER_STEP
    )
    assert outcome.out == CLEAN
    assert "Found 1 error (1 fixed, 0 remaining)" in outcome.err
    assert json.loads((project / "a.sarif").read_text())["runs"][0]["results"] == []


@pytest.mark.parametrize("name", FOR_PROGRAMS)
def test_programs_get_utf8_whatever_the_terminal_speaks(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (project / "損é.py").write_text(CLIP_AFTER_STEP)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", newline="\r\n")
    monkeypatch.setattr(sys, "stdout", stream)
    gradlint("check", "--output-format", name)
    assert isinstance(stream.buffer, io.BytesIO)
    text = stream.buffer.getvalue().decode()
    assert "\r" not in text
    assert any(word in text for word in ("損é.py", "\\u640d\\u00e9.py", "%E6%90%8D%C3%A9.py"))
    _is_valid(name, text)


def test_completion_knows_the_formats() -> None:
    completion = ShellComplete(group, {}, "gradlint", "_GRADLINT_COMPLETE")
    found = [item.value for item in completion.get_completions(["check", "--output-format"], "g")]
    assert found == ["grouped", "github", "gitlab"]


def test_targets() -> None:
    assert targets((), None) == (Target("full"),)
    assert targets((), "a") == (Target("full", "a"),)
    assert targets((Target("json"), Target("full", "b")), "a") == (Target("json", "a"), Target("full", "b"))
    assert targets((Target("json", "-"),), None) == (Target("json"),)
    with pytest.raises(click.UsageError):
        targets((Target("json"), Target("full")), "a")


def test_formats_are_loaded_only_when_asked_for(gradlint: Command, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {f"gradlint.report.{name}" for name in FOR_PROGRAMS if name != "jsonl"}
    for name in modules & sys.modules.keys():
        monkeypatch.delitem(sys.modules, name)
    gradlint("check")
    assert not modules & sys.modules.keys()


def test_an_output_file_without_a_name(gradlint: Command, bad: Path) -> None:
    outcome = gradlint("check", "--output-file", "")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--output-file: the name of the file is missing." in outcome.err


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="no names for open files here")
def test_a_report_may_go_into_a_pipe() -> None:
    """As `-o /dev/stderr` and `-o >(jq .)` do."""
    out, into = os.pipe()
    output.write(f"/dev/fd/{into}", b"hello")
    os.close(into)
    with open(out, "rb") as stream:
        assert stream.read() == b"hello"
