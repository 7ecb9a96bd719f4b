"""`gradlint check --fix` and its companions: options, words and exit codes."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from gradlint.cli import run
from gradlint.model import Fixed
from tests.cli.conftest import Command
from tests.engine_double import ALL_SAFE, NOTHING, SOURCE, double
from tests.runner.faults import inject

__all__ = ["double"]

FIXED = SOURCE.replace(b"SAFE", b"MENDED")


@pytest.fixture
def train(project: Path) -> Path:
    path = project / "train.py"
    path.write_bytes(SOURCE)
    return path


def _configure(project: Path, text: str) -> None:
    (project / "gradlint.toml").write_text(text)


def test_without_fix_nothing_is_written_and_fixable_findings_are_marked(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check")
    assert train.read_bytes() == SOURCE
    heads = [line for line in outcome.out.splitlines() if line.startswith("GL")]
    assert heads == [
        "GL405 [*] method-not-called error: `SAFE` is wrong",
        "GL101 clip-after-step error: `RISKY` is wrong",
        "GL208 backward-under-autocast warning: `STUCK` is wrong",
    ]
    assert outcome.out.splitlines()[-2:] == [
        "Found 2 errors, 1 warning (1 file checked)",
        "[*] 1 fixable with the --fix option (1 more with --unsafe-fixes)",
    ]


def test_the_fix_is_told_under_the_code(gradlint: Command, train: Path) -> None:
    lines = gradlint("check").out.splitlines()
    assert [line for line in lines if "help" in line] == [
        "  = help: Mend `SAFE`",
        "  = help: Mend `RISKY` (unsafe)",
    ]
    assert lines[lines.index("  = help: Mend `SAFE`") - 1] == "  |"


def test_concise_marks_as_well(gradlint: Command, train: Path) -> None:
    lines = gradlint("check", "--output-format", "concise").out.splitlines()
    assert lines[0] == "train.py:2:5: GL405 [*] `SAFE` is wrong"
    assert lines[1] == "train.py:3:5: GL101 `RISKY` is wrong"


def test_unsafe_fixes_without_fix_count_as_available(gradlint: Command, train: Path) -> None:
    lines = gradlint("check", "--unsafe-fixes", "--output-format", "concise").out.splitlines()
    assert lines[1] == "train.py:3:5: GL101 [*] `RISKY` is wrong"
    assert lines[-1] == "[*] 2 fixable with the --fix option"
    assert train.read_bytes() == SOURCE


@pytest.mark.parametrize(
    ("ignored", "hints"),
    [
        ("GL405", ["1 fixable with --fix --unsafe-fixes"]),
        ("GL101", ["[*] 1 fixable with the --fix option"]),
        ("GL405,GL101", []),
    ],
)
def test_hints_say_what_is_there(gradlint: Command, train: Path, ignored: str, hints: list[str]) -> None:
    lines = gradlint("check", "--ignore", ignored).out.splitlines()
    assert lines[[line.startswith("Found") for line in lines].index(True) + 1 :] == hints


def test_quiet_has_no_hints(gradlint: Command, train: Path) -> None:
    assert "fixable" not in gradlint("check", "-q").out


def test_fix_writes_and_tells_what_is_left(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix", "--output-format", "concise")
    assert train.read_bytes() == FIXED
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "train.py:3:5: GL101 `RISKY` is wrong",
        "train.py:4:5: GL208 `STUCK` is wrong",
        "Found 2 errors, 1 warning (1 fixed, 2 remaining)",
        "1 more fixable with --unsafe-fixes",
    ]
    assert outcome.err == ""


def test_the_frames_after_a_fix_show_the_new_text(gradlint: Command, train: Path) -> None:
    out = gradlint("check", "--fix").out
    assert "2 | x = MENDED" in out
    assert "SAFE" not in out


def test_fix_of_everything_exits_with_zero(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_bytes(ALL_SAFE)
    outcome = gradlint("check", "--fix")
    assert (outcome.code, outcome.out) == (0, "Found 2 errors (2 fixed, 0 remaining)\n")
    outcome = gradlint("check", "--fix")
    assert (outcome.code, outcome.out) == (0, "All checks passed! (1 file checked)\n")


def test_fix_with_unsafe_fixes(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix", "--unsafe-fixes")
    assert train.read_bytes() == FIXED.replace(b"RISKY", b"MENDED")
    assert outcome.out.splitlines()[-1] == "Found 2 errors, 1 warning (2 fixed, 1 remaining)"


def test_what_is_left_decides_by_its_severity(gradlint: Command, train: Path) -> None:
    assert gradlint("check", "--fix", "--unsafe-fixes", "--fail-on", "error").code == 0
    assert gradlint("check", "--fix").code == 1
    assert gradlint("check", "--fix", "--exit-zero").code == 0


def test_exit_non_zero_on_fix(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_bytes(ALL_SAFE)
    assert gradlint("check", "--fix", "--exit-non-zero-on-fix").code == 1
    assert gradlint("check", "--fix", "--exit-non-zero-on-fix").code == 0


def test_json_is_about_what_is_left(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix", "--show-fixes", "--output-format", "json")
    assert outcome.codes() == ["GL101", "GL208"]
    assert outcome.json()[0]["fix"] == {
        "applicability": "unsafe",
        "message": "Mend `RISKY`",
        "edits": [{"content": "MENDED", "location": {"row": 3, "column": 5}, "end_location": {"row": 3, "column": 10}}],
    }
    assert outcome.json()[1]["fix"] is None


def test_statistics_are_about_what_is_left(gradlint: Command, train: Path) -> None:
    assert gradlint("check", "--fix", "--statistics").out.splitlines() == [
        "1  GL101  error    clip-after-step",
        "1  GL208  warning  backward-under-autocast",
        "Found 2 errors, 1 warning (1 fixed, 2 remaining)",
        "1 more fixable with --unsafe-fixes",
    ]


def test_quiet_prints_what_is_left_only(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_bytes(ALL_SAFE)
    assert gradlint("check", "--fix", "-q").out == ""


def test_show_fixes(gradlint: Command, project: Path) -> None:
    (project / "a.py").write_bytes(SOURCE + b"w = SAFE\n")
    (project / "b.py").write_bytes(ALL_SAFE)
    (project / "c.py").write_bytes(NOTHING)
    lines = gradlint("check", "--fix", "--unsafe-fixes", "--ignore", "GL208", "--show-fixes").out.splitlines()
    assert lines == [
        "Fixed 5 findings:",
        "- a.py:",
        "    2 × GL405 (method-not-called)",
        "    1 × GL101 (clip-after-step)",
        "- b.py:",
        "    2 × GL405 (method-not-called)",
        "",
        "Found 5 errors (5 fixed, 0 remaining)",
    ]
    assert gradlint("check", "--fix", "--show-fixes", "--ignore", "GL208").out.startswith("All checks passed!")


def test_fix_only(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix-only")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "Fixed 1 finding in 1 file (1 more with --unsafe-fixes)\n"
    assert train.read_bytes() == FIXED
    assert gradlint("check", "--fix-only").out == "Nothing to fix (1 more with --unsafe-fixes)\n"
    assert gradlint("check", "--fix-only", "--unsafe-fixes", "-q").out == ""
    assert gradlint("check", "--fix-only").out == "Nothing to fix (1 file checked)\n"


def test_fix_only_with_show_fixes_and_json(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix-only", "--show-fixes", "--exit-non-zero-on-fix")
    assert outcome.code == 1
    assert "    1 × GL405 (method-not-called)" in outcome.out
    train.write_bytes(SOURCE)
    outcome = gradlint("check", "--fix-only", "--show-fixes", "--output-format", "json")
    assert (outcome.code, outcome.out) == (0, "")


DIFF = """\
--- train.py
+++ train.py
@@ -1,4 +1,4 @@
 # gradlint: a double
-x = SAFE
+x = MENDED
 y = RISKY
 z = STUCK
"""


def test_diff(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--diff")
    assert outcome.code == 1
    assert outcome.out == DIFF
    assert outcome.err == "Would fix 1 finding in 1 file (1 more with --unsafe-fixes)\n"
    assert train.read_bytes() == SOURCE


@pytest.mark.parametrize("others", [["--fix"], ["--fix-only"], ["--no-fix"]])
def test_diff_goes_before_all_that_would_write(gradlint: Command, train: Path, others: list[str]) -> None:
    outcome = gradlint("check", "--diff", *others)
    assert (outcome.code, outcome.out) == (1, DIFF)
    assert train.read_bytes() == SOURCE


def test_diff_of_unsafe_fixes(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--diff", "--unsafe-fixes")
    assert "-y = RISKY" in outcome.out
    assert outcome.err == "Would fix 2 findings in 1 file\n"


def test_diff_of_nothing(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_bytes(b"# gradlint: a double\nz = STUCK\n")
    outcome = gradlint("check", "--diff")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "Nothing to fix (1 file checked)\n")


def test_diff_with_other_options(gradlint: Command, train: Path) -> None:
    assert gradlint("check", "--diff", "--exit-zero").code == 0
    assert gradlint("check", "--diff", "-q").err == ""
    # as ruff: the diff is no list of findings, whatever the format
    outcome = gradlint("check", "--diff", "--output-format", "json")
    assert (outcome.code, outcome.out, outcome.err) == (1, DIFF, "")


def test_the_diff_is_painted_for_terminals(gradlint: Command, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train.write_bytes(SOURCE + b"# \x1b[31m red\n")
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = gradlint("check", "--diff").out.splitlines()
    assert "\x1b[31m-x = SAFE\x1b[0m" in lines
    assert "\x1b[32m+x = MENDED\x1b[0m" in lines
    assert lines[-1] == " # \N{REPLACEMENT CHARACTER}[31m red"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--diff", "--show-fixes"], "--diff and --show-fixes"),
        (["--diff", "--statistics"], "--diff and --statistics"),
        (["--exit-zero", "--exit-non-zero-on-fix"], "--exit-zero and --exit-non-zero-on-fix"),
        (["--no-fix", "--fix-only"], "--no-fix and --fix-only"),
    ],
)
def test_conflicts_are_usage_errors(gradlint: Command, train: Path, options: list[str], told: str) -> None:
    outcome = gradlint("check", *options)
    assert outcome.code == 2
    assert f"{told} cannot be used together." in outcome.err
    assert train.read_bytes() == SOURCE


def test_the_last_of_two_opposites_counts(gradlint: Command, train: Path) -> None:
    gradlint("check", "--fix", "--no-fix")
    assert train.read_bytes() == SOURCE
    gradlint("check", "--no-fix", "--fix", "--unsafe-fixes", "--no-unsafe-fixes")
    assert train.read_bytes() == FIXED


def test_show_files_fixes_nothing(gradlint: Command, train: Path) -> None:
    outcome = gradlint("check", "--fix", "--show-files")
    assert (outcome.code, outcome.out) == (0, f"{train}\n")
    assert train.read_bytes() == SOURCE


@pytest.mark.parametrize(
    ("options", "mended"),
    [
        (["--fixable", "GL101"], 1),
        (["--fixable", "ALL", "--unfixable", "GL4"], 1),
        (["--unfixable", "clip-after-step,method-not-called"], 0),
        (["--fixable", "GL405", "--unfixable", "GL4"], 1),
        (["--fixable", "GL4,GL1"], 2),
    ],
)
def test_which_rules_are_fixed(gradlint: Command, train: Path, options: list[str], mended: int) -> None:
    gradlint("check", "--fix", "--unsafe-fixes", *options)
    assert train.read_bytes().count(b"MENDED") == mended


def test_the_command_line_starts_afresh_over_the_configuration(gradlint: Command, project: Path, train: Path) -> None:
    _configure(project, 'fixable = ["GL101"]\n')
    gradlint("check", "--fix")
    assert train.read_bytes() == SOURCE
    gradlint("check", "--fix", "--fixable", "GL405")
    assert train.read_bytes() == FIXED


def test_the_configuration_may_ask_for_fixes(gradlint: Command, project: Path, train: Path) -> None:
    _configure(project, "fix = true\n")
    gradlint("check", "--no-fix")
    assert train.read_bytes() == SOURCE
    gradlint("check", "--isolated")
    assert train.read_bytes() == SOURCE
    gradlint("check")
    assert train.read_bytes() == FIXED


def test_the_configuration_may_ask_for_more(gradlint: Command, project: Path, train: Path) -> None:
    _configure(project, "fix-only = true\nunsafe-fixes = true\nshow-fixes = true\n")
    gradlint("check", "--no-fix")
    assert train.read_bytes() == SOURCE
    outcome = gradlint("check", "--no-unsafe-fixes", "--no-show-fixes")
    assert (outcome.code, outcome.out) == (0, "Fixed 1 finding in 1 file (1 more with --unsafe-fixes)\n")
    lines = gradlint("check", "--no-fix-only", "--fix", "--output-format", "concise").out.splitlines()
    assert lines == [
        "train.py:4:5: GL208 `STUCK` is wrong",
        "Fixed 1 finding:",
        "- train.py:",
        "    1 × GL101 (clip-after-step)",
        "",
        "Found 1 error, 1 warning (1 fixed, 1 remaining)",
    ]


def test_a_diff_is_only_a_diff_even_if_the_configuration_shows_fixes(
    gradlint: Command, project: Path, train: Path
) -> None:
    _configure(project, "fix = true\nshow-fixes = true\n")
    assert gradlint("check", "--diff").out == DIFF


def test_the_folder_of_the_run_decides_whether_files_are_written(gradlint: Command, project: Path) -> None:
    (project / "vendored").mkdir()
    (project / "vendored" / "gradlint.toml").write_text("fix = true\n")
    (project / "vendored" / "train.py").write_bytes(SOURCE)
    gradlint("check", "vendored")
    assert (project / "vendored" / "train.py").read_bytes() == SOURCE


def test_a_file_that_cannot_be_written_is_an_error_and_the_others_are_fixed(gradlint: Command, project: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (project / name).write_bytes(ALL_SAFE)
    (project / "b.py").chmod(0o444)
    outcome = gradlint("check", "--fix", "--exit-zero", "--output-format", "concise")
    assert outcome.code == 2
    assert outcome.err == "gradlint: error: b.py: not fixed: it is read-only\n"
    assert (project / "b.py").read_bytes() == ALL_SAFE
    assert (project / "a.py").read_bytes() == (project / "c.py").read_bytes() == ALL_SAFE.replace(b"SAFE", b"MENDED")
    assert outcome.out.splitlines() == [
        "b.py:2:5: GL405 `SAFE` is wrong",
        "b.py:3:5: GL405 `SAFE` is wrong",
        "Found 6 errors (4 fixed, 2 remaining)",
    ]
    assert gradlint("check", "--fix-only").code == 2


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk(gradlint: Command, train: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        inject(patch, **{step: full})
        outcome = gradlint("check", "--fix", "--no-cache")
    assert outcome.code == 2
    assert outcome.err == "gradlint: error: train.py: not fixed: No space left on device\n"
    assert train.read_bytes() == SOURCE
    assert os.listdir(train.parent) == ["train.py"]


def test_an_interrupt(gradlint: Command, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        inject(patch, replace=interrupt)
        outcome = gradlint("check", "--fix", "--no-cache")
    assert (outcome.code, outcome.err.strip()) == (130, "gradlint: interrupted")
    assert train.read_bytes() == SOURCE
    assert os.listdir(train.parent) == ["train.py"]


def test_a_crash_while_fixing_exits_with_three(gradlint: Command, train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object, **__: object) -> Fixed:
        raise RuntimeError("oops")

    monkeypatch.setattr("gradlint.engine.fix", raising)
    outcome = gradlint("check", "--fix-only")
    assert outcome.code == 3
    assert "rule engine failed on train.py: RuntimeError: oops" in outcome.err
    assert train.read_bytes() == SOURCE


def test_verbose_counts_fixed_files(gradlint: Command, train: Path) -> None:
    assert "; 1 files fixed; " in gradlint("check", "--fix", "-v").err


def test_stdin_is_fixed_to_stdout_and_told_on_stderr(gradlint: Command) -> None:
    outcome = gradlint("check", "--fix", "-", "--output-format", "concise", stdin=SOURCE)
    assert outcome.code == 1
    assert outcome.out == FIXED.decode()
    assert outcome.err.splitlines() == [
        "-:3:5: GL101 `RISKY` is wrong",
        "-:4:5: GL208 `STUCK` is wrong",
        "Found 2 errors, 1 warning (1 fixed, 2 remaining)",
        "1 more fixable with --unsafe-fixes",
    ]


def test_stdin_frames_are_of_the_fixed_text(gradlint: Command) -> None:
    assert "2 | x = MENDED" in gradlint("check", "--fix", "-", stdin=SOURCE).err


@pytest.mark.parametrize("source", [NOTHING, b"", b"x = 1", b"def broken(:\n", b"\xff\xfe\x00"])
def test_stdin_comes_back_even_if_there_is_nothing_to_fix(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], source: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(source)))
    run(["check", "--fix", "-q", "-"])
    assert capsysbinary.readouterr().out == source


def test_stdin_with_fix_only(gradlint: Command) -> None:
    outcome = gradlint("check", "--fix-only", "-", stdin=SOURCE)
    assert (outcome.code, outcome.out) == (0, FIXED.decode())
    assert outcome.err == "Fixed 1 finding in 1 file (1 more with --unsafe-fixes)\n"


def test_stdin_diff(gradlint: Command) -> None:
    outcome = gradlint("check", "--diff", "-", stdin=SOURCE)
    assert outcome.code == 1
    assert outcome.out == "".join(DIFF.splitlines(keepends=True)[2:])
    assert gradlint("check", "--diff", "-", "--stdin-filename", "train.py", stdin=SOURCE).out == DIFF


def test_stdin_never_touches_the_file_it_is_named_after(gradlint: Command, train: Path) -> None:
    gradlint("check", "--fix", "-", "--stdin-filename", "train.py", stdin=ALL_SAFE)
    assert train.read_bytes() == SOURCE


def test_stdin_json_goes_to_stderr(gradlint: Command) -> None:
    assert gradlint("check", "--fix", "-", "--output-format", "json", stdin=ALL_SAFE).err == "[]\n"
