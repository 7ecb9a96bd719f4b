"""`--diff-base`: only what a change is answerable for, asked of real git in real repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.repositories import SECOND, TAIL, Changed, begin, commit, git, refused
from tests.cli.test_project import ENGINE, MAIN
from tests.sources import CLEAN, CLIP_AFTER_STEP, notebook

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.slow,
    pytest.mark.usefixtures("own_git"),
]


def test_old_findings_are_not_told(gradlint: Command, repo: Path) -> None:
    outcome = gradlint("check", "--diff-base", "main")
    assert (outcome.code, outcome.out, outcome.err) == (0, "All checks passed! (0 files checked)\n", "")


def test_only_new_lines_count_and_the_summary_says_so(gradlint: Command, repo: Path) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    outcome = gradlint("check", "--diff-base", "main", "--output-format", "concise")
    first, last, _ = outcome.out.splitlines()
    assert outcome.code == 1
    assert first.startswith("train.py:19:9: GL101")
    assert last == "Found 1 error (1 file checked, 1 outside the changes)"


@pytest.mark.parametrize("state", ["unstaged", "staged", "committed", "untracked"])
def test_whatever_state_the_change_is_in(repo: Path, changed: Changed, state: str) -> None:
    name = "new.py" if state == "untracked" else "train.py"
    (repo / name).write_text(CLIP_AFTER_STEP + TAIL)
    if state == "staged":
        git("add", "-A", at=repo)
    if state == "committed":
        commit(repo)
    assert changed() == ([("new.py", 10), ("new.py", 19)] if state == "untracked" else [("train.py", 19)])


def test_a_moved_step_makes_the_clip_below_it_wrong(repo: Path, changed: Changed) -> None:
    (repo / "good.py").write_text(CLEAN)
    git("switch", "-q", "main", at=repo)
    commit(repo)
    git("switch", "-q", "feature", at=repo)
    git("merge", "-q", "main", at=repo)
    (repo / "good.py").write_text(CLIP_AFTER_STEP)  # git calls the step new and the clip old, or the other way round
    assert changed() == [("good.py", 10)]


def test_a_deleted_line_counts_though_no_line_is_new(repo: Path, changed: Changed) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP.replace("        optimizer.zero_grad()\n", ""))
    found = changed()
    assert len(found) == 1, "the clip after the step is old, the missing zero_grad is new"
    assert found[0] == ("train.py", 7)


def test_a_change_that_breaks_nothing_is_not_blamed(repo: Path, changed: Changed) -> None:
    (repo / "train.py").write_text("# hello\n" + CLIP_AFTER_STEP.replace("def train", "def run"))
    assert changed() == []


def test_a_line_that_is_deleted_many_times_counts_each_time(repo: Path, changed: Changed) -> None:
    tails = [CLEAN[CLEAN.index("\n\ndef") :].replace("def train", f"def train_{n}") for n in range(3)]
    git("switch", "-q", "main", at=repo)
    (repo / "four.py").write_text(CLEAN + "".join(tails))
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    (repo / "four.py").write_text((CLEAN + "".join(tails)).replace("        optimizer.zero_grad()\n", ""))
    assert changed() == [("four.py", row) for row in (7, 15, 23, 31)]


def test_a_mended_function_does_not_excuse_another(repo: Path, changed: Changed) -> None:
    missing = CLEAN.replace("        optimizer.zero_grad()\n", "")
    other = CLEAN[CLEAN.index("\n\ndef") :].replace("def train", "def finetune")
    git("switch", "-q", "main", at=repo)
    (repo / "two.py").write_text(missing + other)
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    (repo / "two.py").write_text(CLEAN + other.replace("        optimizer.zero_grad()\n", ""))
    assert changed() == [("two.py", 16)], "the same line of the same rule, but in another function"


def test_a_renamed_file_is_compared_with_itself(repo: Path, changed: Changed) -> None:
    git("mv", "train.py", "the training.py", at=repo)
    assert changed() == []
    (repo / "the training.py").write_text(CLIP_AFTER_STEP + TAIL)
    git("add", "-A", at=repo)
    assert changed() == [("the training.py", 19)]


@pytest.mark.parametrize("name", ["größe.py", "with space.py", "tab\there.py", 'quo"te.py', "new\nline.py", "-dash.py"])
@pytest.mark.skipif(os.name != "posix", reason="names that Windows does not have")
def test_names_of_all_kinds(repo: Path, changed: Changed, name: str) -> None:
    git("switch", "-q", "main", at=repo)
    (repo / name).write_text(CLIP_AFTER_STEP)
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    (repo / name).write_text(CLIP_AFTER_STEP + TAIL)
    assert changed() == [(name, 19)]


def test_files_that_were_only_touched_have_not_changed(repo: Path, changed: Changed) -> None:
    """As after a copy, or a cache that was restored: git lists them, and has no line of theirs."""
    for path in repo.glob("*.py"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert changed() == []
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    assert changed() == [("train.py", 19)]


def test_what_main_did_meanwhile_is_not_blamed_on_the_branch(repo: Path, changed: Changed) -> None:
    git("switch", "-q", "main", at=repo)
    (repo / "old.py").write_text(CLEAN)
    commit(repo)
    git("switch", "-q", "feature", at=repo)
    assert changed() == [], "compared with main itself, the old finding would look new"


def test_windows_newlines(repo: Path, changed: Changed) -> None:
    git("switch", "-q", "main", at=repo)
    (repo / "dos.py").write_bytes(CLIP_AFTER_STEP.replace("\n", "\r\n").encode())
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    (repo / "dos.py").write_bytes((CLIP_AFTER_STEP + TAIL).replace("\n", "\r\n").encode())
    assert changed() == [("dos.py", 19)]


def test_converted_newlines_do_not_count(repo: Path, changed: Changed) -> None:
    git("config", "core.autocrlf", "true", at=repo)
    (repo / "train.py").write_bytes((CLIP_AFTER_STEP + TAIL).replace("\n", "\r\n").encode())
    assert changed() == [("train.py", 19)]


def test_a_syntax_error_is_always_told(repo: Path, changed: Changed) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP + "\nx = (\n")
    assert len(changed()) == 1


def test_from_a_subfolder(repo: Path, changed: Changed, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "sub").mkdir()
    (repo / "sub" / "a.py").write_text(CLIP_AFTER_STEP)
    (repo / "b.py").write_text(CLIP_AFTER_STEP)
    monkeypatch.chdir(repo / "sub")
    assert changed() == [("a.py", 10)]
    assert changed("..") == [("../b.py", 10), ("a.py", 10)]


def test_a_named_file_that_git_ignores_is_new(repo: Path, changed: Changed) -> None:
    (repo / ".gitignore").write_text("made.py\n")
    (repo / "made.py").write_text(CLIP_AFTER_STEP)
    assert changed() == []
    assert changed("made.py") == [("made.py", 10)]


def test_a_worktree(repo: Path, changed: Changed, monkeypatch: pytest.MonkeyPatch) -> None:
    git("worktree", "add", "-q", "-b", "other", str(repo / "tree"), "main", at=repo)
    monkeypatch.chdir(repo / "tree")
    (repo / "tree" / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    assert changed() == [("train.py", 19)]


def test_a_submodule_is_compared_with_the_commit_it_was_at(
    repo: Path, changed: Changed, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path_factory.mktemp("library")
    begin(library)
    (library / "lib.py").write_text(CLIP_AFTER_STEP)
    commit(library)
    git("switch", "-q", "main", at=repo)
    git("submodule", "add", "-q", str(library), "vendor/lib", at=repo)
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    assert changed() == []
    inner = repo / "vendor" / "lib"
    (inner / "lib.py").write_text(CLIP_AFTER_STEP + TAIL)
    commit(inner)
    assert changed() == [("vendor/lib/lib.py", 19)], "though `main` of the library is now this very commit"
    commit(repo)
    assert changed() == [("vendor/lib/lib.py", 19)]
    monkeypatch.chdir(inner)
    assert changed() == [], "who stands in the submodule speaks of its own branches"


def test_a_submodule_that_was_not_there_is_new(
    repo: Path, changed: Changed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = tmp_path_factory.mktemp("library")
    begin(library)
    (library / "lib.py").write_text(CLIP_AFTER_STEP)
    commit(library)
    git("submodule", "add", "-q", str(library), "lib", at=repo)
    assert changed() == [("lib/lib.py", 10)]


def test_settings_of_the_user_do_not_disturb(repo: Path, changed: Changed) -> None:
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "9",
        "diff.interHunkContext": "99",
        "diff.relative": "true",
        "diff.external": "false",
        "diff.renames": "false",
        "color.ui": "always",
        "core.pager": "false",
        "diff.algorithm": "histogram",
    }.items():
        git("config", key, value, at=repo)
    (repo / ".gitattributes").write_text("*.py binary\n")
    (repo / "train.py").write_text("# hello\n" + CLIP_AFTER_STEP + TAIL)
    assert changed() == [("train.py", 20)]


def test_the_repository_of_a_hook_does_not_disturb(
    repo: Path, changed: Changed, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    begin(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    assert changed() == [("train.py", 19)]


def test_histories_without_a_shared_commit(gradlint: Command, repo: Path) -> None:
    git("switch", "-q", "--orphan", "alone", at=repo)
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    commit(repo)
    outcome = gradlint("check", "--diff-base", "main", "--output-format", "concise")
    assert "share no commit" in outcome.err
    assert outcome.out.startswith("train.py:19:9: GL101")


@pytest.mark.parametrize("revision", ["nowhere", "main..feature", "", "-h", "--output=made", "main^{tree}"])
def test_an_unknown_revision(gradlint: Command, repo: Path, revision: str) -> None:
    (repo / "train.py").write_text(CLEAN)
    before = set(repo.iterdir())
    refused(gradlint("check", f"--diff-base={revision}", "--no-cache"), revision or "``")
    assert set(repo.iterdir()) == before


def test_a_shallow_clone_is_told_how_to_get_more(
    gradlint: Command, repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path_factory.mktemp("clone") / "shallow"
    git("clone", "-q", "--depth", "1", "--branch", "feature", repo.as_uri(), str(clone), at=repo)
    monkeypatch.chdir(clone)
    refused(gradlint("check", "--diff-base", "origin/main"), "fetch-depth: 0")


def test_in_a_partial_clone_all_lines_of_a_changed_file_count(
    gradlint: Command, repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path_factory.mktemp("source") / "bare"
    git("clone", "-q", "--bare", str(repo), str(source), at=repo)
    git("config", "uploadpack.allowFilter", "true", at=source)
    clone = tmp_path_factory.mktemp("clone") / "partial"
    git("clone", "-q", "--filter=blob:none", "--no-checkout", source.as_uri(), str(clone), at=repo)
    git("reset", "-q", "origin/main", at=clone)
    (clone / "train.py").write_text("# hello\n" + CLIP_AFTER_STEP)
    (clone / "old.py").write_text(CLIP_AFTER_STEP)
    shutil.rmtree(source)
    monkeypatch.chdir(clone)
    (clone / "new.py").write_text(CLIP_AFTER_STEP)
    outcome = gradlint("check", "--diff-base", "origin/main", "--no-cache", "--output-format", "json")
    assert [Path(row["filename"]).name for row in outcome.json()] == ["new.py", "train.py"]
    assert "is a partial clone without the older text of a changed file" in outcome.err


def test_what_holds_no_program_is_not_read(repo: Path, changed: Changed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights may be large: git is asked for programs and notebooks, and for what was named besides."""
    from gradlint.runner import changes

    (repo / "weights.pt").write_bytes(b"\0\1" * 5_000)
    (repo / "script").write_text(CLIP_AFTER_STEP)
    commit(repo)
    git("branch", "-f", "main", at=repo)
    (repo / "weights.pt").write_bytes(b"\0\2\n" * 5_000)
    (repo / "script").write_text(CLIP_AFTER_STEP + TAIL)
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    said: list[bytes] = []

    def spied(*arguments: Any) -> subprocess.CompletedProcess[bytes]:
        done = run(*arguments)
        said.append(done.stdout)
        return done

    run = changes._run
    monkeypatch.setattr(changes, "_run", spied)
    assert changed() == [("train.py", 19)]
    assert changed("script", "train.py") == [("script", 19), ("train.py", 19)]
    assert not any(b"\0\2" in text for text in said)


def test_not_a_repository(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    refused(gradlint("check", "--diff-base", "main"), "train.py is in no git repository")


def test_a_repository_without_a_commit(gradlint: Command, project: Path) -> None:
    begin(project)
    (project / "train.py").write_text(CLEAN)
    refused(gradlint("check", "--diff-base", "HEAD"), "git does not know `HEAD`")


def test_git_is_not_installed(gradlint: Command, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    refused(gradlint("check", "--diff-base", "main"), "git is not installed")


def test_stdin_has_no_history(gradlint: Command, repo: Path) -> None:
    refused(gradlint("check", "-", "--diff-base", "main"), "--diff-base and - (stdin) cannot be used together")


def test_show_files_lists_the_changed_ones(gradlint: Command, repo: Path) -> None:
    (repo / "train.py").write_text(CLEAN)
    assert gradlint("check", "--show-files", "--diff-base", "main").out == f"{repo / 'train.py'}\n"


def test_with_a_baseline_both_hold(gradlint: Command, repo: Path) -> None:
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL)
    gradlint("check", "--write-baseline", "known.json")
    third = TAIL.replace("finetune", "again")
    (repo / "train.py").write_text(CLIP_AFTER_STEP + TAIL + third)
    outcome = gradlint("check", "--diff-base", "main", "--baseline", "known.json", "--output-format", "concise")
    assert outcome.out.startswith("train.py:28:9: GL101")
    assert outcome.err == ""
    assert len(outcome.out.splitlines()) == 3


def test_fix_touches_only_what_changed(gradlint: Command, repo: Path) -> None:
    (repo / "train.py").write_text("# hello\n" + TAIL + CLIP_AFTER_STEP)
    outcome = gradlint("check", "--fix", "--diff-base", "main")
    assert outcome.code == 0, outcome.out
    fixed = (repo / "train.py").read_text()
    first, _, second = fixed.partition("import torch")
    assert first.index("clip_grad_norm_") < first.index("optimizer.step()")
    assert second == CLIP_AFTER_STEP.removeprefix("import torch")
    assert (repo / "old.py").read_text() == CLIP_AFTER_STEP


def test_cells_of_a_notebook(gradlint: Command, repo: Path, changed: Changed) -> None:
    git("switch", "-q", "main", at=repo)
    (repo / "nb.ipynb").write_text(notebook("%matplotlib inline", CLIP_AFTER_STEP))
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    again = json.loads(notebook("%matplotlib inline", "x = 1", CLIP_AFTER_STEP))
    again["cells"][2]["execution_count"] = 3
    (repo / "nb.ipynb").write_text(json.dumps(again, indent=4))
    assert changed() == [], "the cell has moved, and it was run, but nobody wrote in it"
    (repo / "nb.ipynb").write_text(notebook("%matplotlib inline", SECOND, CLIP_AFTER_STEP))
    outcome = gradlint("check", "--diff-base", "main", "--output-format", "json")
    assert [finding["cell"] for finding in outcome.json()] == [2]
    gradlint("check", "--diff-base", "main", "--fix")
    sources = ["".join(cell["source"]) for cell in json.loads((repo / "nb.ipynb").read_text())["cells"]]
    assert sources[2] == CLIP_AFTER_STEP
    assert sources[1] == CLEAN.replace("def train", "def finetune")


def test_a_cell_that_is_pasted_many_times_counts_each_time(gradlint: Command, repo: Path) -> None:
    git("switch", "-q", "main", at=repo)
    (repo / "nb.ipynb").write_text(notebook("import torch"))
    commit(repo)
    git("switch", "-q", "-C", "feature", at=repo)
    loop = CLIP_AFTER_STEP.removeprefix("import torch")
    (repo / "nb.ipynb").write_text(notebook("import torch", loop, loop, loop))
    outcome = gradlint("check", "--diff-base", "main", "--output-format", "json")
    assert [finding["cell"] for finding in outcome.json()] == [2, 3, 4]


def test_a_caller_that_changes_answers_for_what_it_makes_wrong(gradlint: Command, project: Path) -> None:
    begin(project)
    for name, text in (("engine", ENGINE), ("main", MAIN.replace("4)", "1)")), ("other", MAIN)):
        (project / f"{name}.py").write_text(text)
    commit(project)

    def told() -> list[str]:
        found = gradlint("check", "--project", "--diff-base", "HEAD", "--output-format", "json").json()
        return [f"{Path(f['filename']).name}: {f['code']}" for f in found]

    assert told() == []
    (project / "engine.py").write_text(ENGINE + "\n\nDONE = True\n")
    assert told() == []  # it was so before
    (project / "other.py").unlink()
    (project / "main.py").write_text(MAIN)
    assert told() == ["engine.py: GL501"]
    git("checkout", "engine.py", at=project)
    assert told() == ["engine.py: GL501"]
