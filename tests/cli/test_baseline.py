"""Known findings: written to a baseline, silent from then on, missed when they are gone."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from gradlint.cli import run
from tests.cli.conftest import Command
from tests.sources import BROKEN, CLEAN, CLIP_AFTER_STEP, notebook

SECOND = CLIP_AFTER_STEP.replace("def train", "def finetune")
TWO = CLIP_AFTER_STEP + SECOND[SECOND.index("\n\ndef") :]
FILE = "known.json"


@pytest.fixture
def known(gradlint: Command, project: Path) -> Path:
    """A project whose one finding is in the baseline."""
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--write-baseline", FILE).code == 0
    return project


def _entries(project: Path, file: str = FILE) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((project / file).read_text(encoding="utf-8"))["findings"]
    return found


def test_writing_says_what_was_written_and_exits_with_zero(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    outcome = gradlint("check", "--write-baseline", FILE)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"Wrote 1 finding to {FILE}\n", "")
    (entry,) = _entries(project)
    assert list(entry) == ["path", "code", "function", "line", "fingerprint"]
    assert (entry["path"], entry["code"], entry["function"]) == ("train.py", "GL101", "train")
    assert entry["line"] == "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert (project / FILE).read_bytes().endswith(b"}\n")


def test_written_again_it_is_the_same_to_the_byte_and_not_touched(gradlint: Command, known: Path) -> None:
    before, stamp = (known / FILE).read_bytes(), (known / FILE).stat().st_mtime_ns
    os.utime(known / FILE, ns=(stamp - 10**9, stamp - 10**9))
    gradlint("check", "--write-baseline", FILE)
    assert (known / FILE).read_bytes() == before
    assert (known / FILE).stat().st_mtime_ns == stamp - 10**9


def test_a_known_finding_is_silent_and_counted(gradlint: Command, known: Path) -> None:
    outcome = gradlint("check", "--baseline", FILE)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "All checks passed! (1 file checked, 1 silenced by the baseline)\n"


def test_moved_lines_and_comments_change_nothing(gradlint: Command, known: Path) -> None:
    moved = CLIP_AFTER_STEP.replace("1.0)", "1.0)  # why not")
    (known / "train.py").write_text("# a line\n" * 30 + moved)
    assert gradlint("check", "--baseline", FILE, "-q").out == ""


def test_a_new_finding_is_told(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(TWO)
    outcome = gradlint("check", "--baseline", FILE, "--output-format", "concise")
    assert outcome.code == 1
    found, last, _ = outcome.out.splitlines()
    assert found.startswith("train.py:19:9: GL101")
    assert last == "Found 1 error (1 file checked, 1 silenced by the baseline)"


def test_the_same_line_a_second_time_is_new(gradlint: Command, known: Path) -> None:
    clip = CLIP_AFTER_STEP.splitlines()[-1] + "\n"
    (known / "train.py").write_text(CLIP_AFTER_STEP + clip)
    assert gradlint("check", "--baseline", FILE, "--select", "GL101", "--output-format", "json").codes() == ["GL101"]


def test_what_is_gone_is_named_with_how_to_refresh(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(CLEAN)
    outcome = gradlint("check", "--baseline", FILE)
    assert (outcome.code, outcome.out) == (0, "All checks passed! (1 file checked)\n")
    assert outcome.err.splitlines() == [
        f"gradlint: 1 finding of {FILE} is gone:",
        "gradlint:   train.py: GL101 in train: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        f"gradlint: `gradlint check --write-baseline {FILE}` brings it up to date",
    ]
    assert gradlint("check", "--baseline", FILE, "-q").err == ""
    gradlint("check", "--write-baseline", FILE)
    assert _entries(known) == []
    assert gradlint("check", "--baseline", FILE).err == ""


@pytest.mark.slow
def test_a_long_list_of_what_is_gone_is_cut(gradlint: Command, project: Path) -> None:
    for number in range(13):
        (project / f"train_{number:02}.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "--write-baseline", FILE)
    for path in project.glob("*.py"):
        path.write_text(CLEAN)
    lines = gradlint("check", "--baseline", FILE).err.splitlines()
    assert len(lines) == 13
    assert lines[-2] == "gradlint:   and 3 more"


def test_entries_of_files_that_were_not_looked_at_are_not_missed(gradlint: Command, known: Path) -> None:
    (known / "other.py").write_text(CLEAN)
    assert gradlint("check", "other.py", "--baseline", FILE).err == ""


def test_entries_of_rules_that_are_off_are_not_missed(gradlint: Command, known: Path) -> None:
    assert gradlint("check", "--baseline", FILE, "--select", "GL4").err == ""


def test_entries_of_a_file_that_cannot_be_read_as_python_are_not_missed(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(BROKEN)
    outcome = gradlint("check", "--baseline", FILE)
    assert outcome.code == 1
    assert "is gone" not in outcome.err


def test_entries_of_a_deleted_file_are_gone(gradlint: Command, known: Path) -> None:
    (known / "train.py").unlink()
    (known / "other.py").write_text(CLEAN)
    assert "1 finding of known.json is gone" in gradlint("check", "--baseline", FILE).err


def test_a_renamed_file_keeps_what_is_known(gradlint: Command, known: Path) -> None:
    (known / "models").mkdir()
    (known / "train.py").rename(known / "models" / "training.py")
    outcome = gradlint("check", "--baseline", FILE)
    assert (outcome.code, outcome.err) == (0, "")


def test_a_copy_is_new_while_the_first_is_there(gradlint: Command, known: Path) -> None:
    (known / "copy.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--baseline", FILE, "--output-format", "json").json()[0]["filename"].endswith("copy.py")


def test_a_renamed_file_pays_for_one_finding_only(gradlint: Command, known: Path) -> None:
    (known / "train.py").unlink()
    for name in ("a.py", "b.py"):
        (known / name).write_text(CLIP_AFTER_STEP)
    assert len(gradlint("check", "--baseline", FILE, "--output-format", "json").json()) == 1


def test_a_refresh_of_one_file_keeps_the_entries_of_the_others(gradlint: Command, known: Path) -> None:
    (known / "other.py").write_text(SECOND)
    assert gradlint("check", "other.py", "--write-baseline", FILE).out == f"Wrote 2 findings to {FILE}\n"
    assert [entry["path"] for entry in _entries(known)] == ["other.py", "train.py"]


def test_a_refresh_of_a_part_keeps_what_lives_on_elsewhere(gradlint: Command, project: Path) -> None:
    """A file of the rest was renamed: its entries are known under the new name, until that part is written, too."""
    for name in ("a/one.py", "b/two.py", "b/three.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(CLIP_AFTER_STEP.replace("model", name[2:-3]))
    gradlint("check", "--write-baseline", FILE)
    (project / "b" / "two.py").rename(project / "b" / "renamed.py")
    (project / "b" / "three.py").rename(project / "a" / "three.py")
    gradlint("check", "a", "--write-baseline", FILE)
    assert [entry["path"] for entry in _entries(project)] == ["a/one.py", "a/three.py", "b/two.py"]
    outcome = gradlint("check", "--baseline", FILE)
    assert (outcome.code, outcome.err) == (0, "")
    assert gradlint("check", "a", "--baseline", FILE).err == ""  # nothing of b is missed
    gradlint("check", "b", "--write-baseline", FILE)
    assert [entry["path"] for entry in _entries(project)] == ["a/one.py", "a/three.py", "b/renamed.py"]


def test_a_refresh_with_fewer_rules_keeps_the_entries_of_the_others(gradlint: Command, known: Path) -> None:
    gradlint("check", "--select", "GL4", "--write-baseline", FILE)
    assert len(_entries(known)) == 1


def test_a_syntax_error_is_never_known(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(BROKEN)
    outcome = gradlint("check", "--write-baseline", FILE)
    assert "train.py: not valid Python, so its findings are not known" in outcome.err
    assert _entries(project) == []
    assert gradlint("check", "--baseline", FILE, "--output-format", "json").codes() == ["GL900"]


def test_paths_are_relative_to_the_baseline_wherever_one_stands(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project / "src" / "größe 1"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "--write-baseline", "src/known.json")
    (entry,) = _entries(project, "src/known.json")
    assert entry["path"] == "größe 1/train.py"
    monkeypatch.chdir(folder)
    assert gradlint("check", "--baseline", "../known.json").code == 0


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_the_way_through_a_link_leads_to_the_same_entries(
    gradlint: Command, known: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "link"
    link.symlink_to(known)
    assert gradlint("check", str(link / "train.py"), "--baseline", str(link / FILE)).code == 0
    assert gradlint("check", str(link / "train.py"), "--baseline", FILE).code == 0


def test_the_configuration_names_a_baseline_from_its_own_folder(
    gradlint: Command, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known / "gradlint.toml").write_text(f'baseline = "{FILE}"\n')
    assert gradlint("check").code == 0
    assert gradlint("check", "--no-baseline").code == 1
    (known / "empty.json").write_text('{"tool": "gradlint", "version": 1, "findings": []}')
    assert gradlint("check", "--baseline", "empty.json").code == 1
    (known / "sub").mkdir()
    monkeypatch.chdir(known / "sub")
    assert gradlint("check", "../train.py").code == 0


def test_each_file_has_the_baseline_of_its_own_configuration(gradlint: Command, project: Path) -> None:
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "train.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "one", "--write-baseline", "one/known.json")
    (project / "one" / "gradlint.toml").write_text('baseline = "known.json"\n')
    (found,) = gradlint("check", "--output-format", "json").json()
    assert found["filename"] == str(project / "two" / "train.py")


@pytest.mark.parametrize("value", ["3", '""', '["a"]'])
def test_a_wrong_value_in_the_configuration_is_told(gradlint: Command, project: Path, value: str) -> None:
    (project / "gradlint.toml").write_text(f"baseline = {value}\n")
    outcome = gradlint("check")
    assert outcome.code == 2
    assert "gradlint.toml: baseline: must be the name of a file" in outcome.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not a baseline of gradlint"),
        ("<<<<<<< HEAD\n", "not a baseline of gradlint"),
        ("[]", "not a baseline of gradlint"),
        ("{}", "not a baseline of gradlint"),
        ('{"tool": "gradlint", "version": 1}', "a broken entry"),
        ('{"tool": "gradlint", "version": 1, "findings": [{"path": "a.py"}]}', "a broken entry"),
        ('{"tool": "gradlint", "version": 1, "findings": [7]}', "a broken entry"),
        ('{"tool": "gradlint", "version": 2, "findings": []}', "written by a newer gradlint (format 2"),
    ],
)
def test_a_broken_baseline_stops_the_run(gradlint: Command, project: Path, content: str, words: str) -> None:
    (project / "train.py").write_text(CLEAN)
    (project / FILE).write_text(content)
    for option in ("--baseline", "--write-baseline"):  # what is no baseline is not overwritten, either
        outcome = gradlint("check", option, FILE)
        assert outcome.code == 2
        assert words in outcome.err
    assert (project / FILE).read_text() == content


def test_a_missing_baseline_stops_the_run_and_says_how_to_make_it(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    outcome = gradlint("check", "--baseline", FILE)
    assert outcome.code == 2
    assert "cannot be read: No such file" in outcome.err
    assert f"`gradlint check --write-baseline {FILE}` makes it" in outcome.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_a_pipe_is_no_baseline_and_nobody_waits_for_it(gradlint: Command, project: Path, option: str) -> None:
    (project / "train.py").write_text(CLEAN)
    os.mkfifo(project / "pipe.json")
    outcome = gradlint("check", option, "pipe.json")
    assert outcome.code == 2
    assert "pipe.json: not a regular file" in " ".join(outcome.err.split())


def test_a_baseline_that_cannot_be_written(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    outcome = gradlint("check", "--write-baseline", "no/such/folder.json")
    assert outcome.code == 2
    assert "cannot be written" in outcome.err


@pytest.mark.parametrize(
    "options",
    [
        ("--baseline", FILE, "--no-baseline"),
        ("--baseline", FILE, "--write-baseline", FILE),
        ("--write-baseline", FILE, "--fix"),
        ("--write-baseline", FILE, "--fix-only"),
        ("--write-baseline", FILE, "--diff"),
        ("--write-baseline", FILE, "--watch"),
        ("--write-baseline", FILE, "--diff-base", "HEAD"),
        ("--write-baseline", FILE, "--output-format", "json=made.json"),
        ("--write-baseline", FILE, "--output-file", "made.txt"),
        ("--write-baseline", FILE, "--statistics"),
        ("--write-baseline", FILE, "-"),
    ],
)
def test_what_cannot_both_be_meant(gradlint: Command, project: Path, options: tuple[str, ...]) -> None:
    outcome = gradlint("check", *options)
    assert outcome.code == 2
    assert "cannot be used together" in outcome.err
    assert not (project / FILE).exists()


def test_stdin_is_known_by_its_name(gradlint: Command, known: Path) -> None:
    def through_stdin(*options: str) -> int:
        return gradlint("check", "-", "--baseline", FILE, *options, stdin=CLIP_AFTER_STEP).code

    assert through_stdin("--stdin-filename", "train.py") == 0
    assert through_stdin("--stdin-filename", "other.py") == 1
    assert through_stdin() == 1


def test_statistics_and_exit_zero(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(TWO)
    outcome = gradlint("check", "--baseline", FILE, "--statistics", "--exit-zero")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "1  GL101  error  clip-after-step  [*] 1"


@pytest.mark.slow
def test_the_cache_holds_everything_and_processes_change_nothing(gradlint: Command, project: Path) -> None:
    for number in range(30):
        (project / f"train_{number:02}.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "--write-baseline", FILE, "--jobs", "2")
    assert gradlint("check", "--baseline", FILE, "--jobs", "2").code == 0
    assert gradlint("check", "--baseline", FILE).code == 0
    assert len(gradlint("check", "--output-format", "json").json()) == 30


def test_fix_leaves_what_is_known_alone(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(TWO)
    outcome = gradlint("check", "--fix", "--baseline", FILE)
    assert outcome.code == 0
    fixed = (known / "train.py").read_text()
    first, _, second = fixed.partition("def finetune")
    assert first.index("optimizer.step()") < first.index("clip_grad_norm_")
    assert second.index("clip_grad_norm_") < second.index("optimizer.step()")
    assert "1 fixed, 0 remaining" in outcome.out


def test_diff_shows_only_what_is_new(gradlint: Command, known: Path) -> None:
    (known / "train.py").write_text(TWO)
    outcome = gradlint("check", "--diff", "--baseline", FILE)
    assert outcome.code == 1
    assert outcome.out.count("@@") == 2
    assert (known / "train.py").read_text() == TWO


def test_fix_of_what_is_all_known_writes_nothing(gradlint: Command, known: Path) -> None:
    assert gradlint("check", "--fix", "--exit-non-zero-on-fix", "--baseline", FILE).code == 0
    assert (known / "train.py").read_text() == CLIP_AFTER_STEP


def test_fix_through_stdin_leaves_what_is_known_alone(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, changed in ((CLIP_AFTER_STEP, False), (TWO, True)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        monkeypatch.setattr(sys, "stdout", out := io.TextIOWrapper(io.BytesIO()))
        assert run(["check", "-", "--stdin-filename", "train.py", "--fix", "--baseline", FILE]) == 0
        out.flush()
        assert (out.buffer.getvalue().decode() != text) is changed


def test_a_notebook_is_known_by_its_code(gradlint: Command, project: Path) -> None:
    (project / "nb.ipynb").write_text(notebook(CLIP_AFTER_STEP))
    gradlint("check", "--write-baseline", FILE)
    assert [entry["path"] for entry in _entries(project)] == ["nb.ipynb"]
    (project / "nb.ipynb").write_text(notebook("x = 1", CLIP_AFTER_STEP))
    assert gradlint("check", "--baseline", FILE).code == 0
    (project / "nb.ipynb").write_text(notebook("x = 1", CLIP_AFTER_STEP, SECOND))
    assert len(gradlint("check", "--baseline", FILE, "--output-format", "json").json()) == 1
