"""Options and keys that people know from other linters: which files, which rules, how a run ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradlint import __version__
from tests.cli.conftest import Command
from tests.sources import CLIP_AFTER_STEP


def _write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CLIP_AFTER_STEP)


def _files(gradlint: Command, project: Path, *options: str) -> list[str]:
    outcome = gradlint("check", "--show-files", *options)
    assert (outcome.code, outcome.err) == (0, "")
    return [os.path.relpath(line, project) for line in outcome.out.splitlines()]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ((), ["a.py", "src/b.py", "src/old/c.py"]),
        (("--exclude", "src"), ["a.py", "build/d.py"]),
        (("--exclude", "src/old,a.py"), ["build/d.py", "src/b.py"]),
        (("--exclude", "src/*.py", "--exclude", "build"), ["a.py", "src/old/c.py"]),
        (("--extend-exclude", "src/old"), ["a.py", "src/b.py"]),
        (("--extend-exclude", "./src/old/"), ["a.py", "src/b.py"]),
        (("--config", 'extend-exclude = ["src/old"]'), ["a.py", "src/b.py"]),
    ],
)
def test_excludes(gradlint: Command, project: Path, options: tuple[str, ...], left: list[str]) -> None:
    _write(project, "a.py", "src/b.py", "src/old/c.py", "build/d.py")
    assert _files(gradlint, project, *options) == left


def test_patterns_of_the_command_line_count_from_where_it_is_said(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(project, "sub/pkg/a.py", "sub/pkg/b.py", "pkg/a.py")
    (project / "gradlint.toml").write_text('extend-exclude = ["pkg/a.py"]\n')
    monkeypatch.chdir(project / "sub")
    assert _files(gradlint, project, "--extend-exclude", "pkg/b.py", "..") == ["sub/pkg/a.py"]


def test_a_folder_with_the_signs_of_patterns_in_its_name(gradlint: Command, project: Path) -> None:
    _write(project, "[x]/a/b.py", "[x]/c.py")
    (project / "[x]" / "gradlint.toml").write_text('exclude = ["a/*"]\nper-file-ignores = { "./c.py" = ["GL101"] }\n')
    assert _files(gradlint, project) == ["[x]/c.py"]
    assert gradlint("check", "--output-format", "json").codes() == []


def test_an_exclude_that_takes_back_is_refused(gradlint: Command, project: Path) -> None:
    outcome = gradlint("check", "--exclude", "!a.py")
    assert outcome.code == 2
    assert "--exclude: `!a.py`: a pattern cannot take files back in" in outcome.err
    (project / "gradlint.toml").write_text('exclude = ["!a.py"]\n')
    assert "gradlint.toml: exclude: `!a.py`: a pattern cannot" in gradlint("check").err


def test_excluded_files_that_are_named(gradlint: Command, project: Path) -> None:
    _write(project, "old/a.py")
    (project / "gradlint.toml").write_text('exclude = ["old"]\nforce-exclude = true\n')
    assert _files(gradlint, project, "--no-force-exclude", "old/a.py") == ["old/a.py"]
    assert "no Python files found" in gradlint("check", "old/a.py").err


def test_what_git_ignores(gradlint: Command, project: Path) -> None:
    _write(project, "a.py", "b.py", "c.py")
    (project / ".gitignore").write_text("a.py\n")
    (project / ".git" / "info").mkdir(parents=True)
    (project / ".git" / "info" / "exclude").write_text("b.py\nc.py\n")
    (project / ".gitignore").write_text("a.py\n!c.py\n")  # goes over the other
    assert _files(gradlint, project) == ["c.py"]
    assert _files(gradlint, project, "--no-respect-gitignore") == ["a.py", "b.py", "c.py"]
    (project / "gradlint.toml").write_text("respect-gitignore = false\n")
    assert _files(gradlint, project) == ["a.py", "b.py", "c.py"]
    assert _files(gradlint, project, "--respect-gitignore") == ["c.py"]


def test_info_exclude_of_a_further_worktree(gradlint: Command, project: Path) -> None:
    """`.git` is a file there, and leads to a folder that leads to the one with the list."""
    _write(project, "tree/a.py", "tree/sub/b.py")
    (project / "main" / "worktrees" / "tree").mkdir(parents=True)
    (project / "main" / "info").mkdir()
    (project / "main" / "info" / "exclude").write_text("b.py\n")
    (project / "main" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    (project / "tree" / ".git").write_text(f"gitdir: {project / 'main' / 'worktrees' / 'tree'}\n")
    assert _files(gradlint, project, "tree") == ["tree/a.py"]
    assert _files(gradlint, project, "tree/sub") == []


def test_per_file_ignores(gradlint: Command, project: Path) -> None:
    _write(project, "a.py", "tests/b.py")
    json = ("--output-format", "json")
    assert len(gradlint("check", "--per-file-ignores", "tests/*:GL1", *json).json()) == 1
    assert gradlint("check", "--per-file-ignores", "tests/*:GL4,*.py:clip-after-step", *json).json() == []
    (left,) = gradlint("check", "--per-file-ignores", "!tests/*:GL101", *json).json()
    assert left["filename"] == str(project / "tests" / "b.py")
    (project / "gradlint.toml").write_text('per-file-ignores = { "!tests/*" = ["GL101"] }\n')
    (left,) = gradlint("check", *json).json()
    assert left["filename"] == str(project / "tests" / "b.py")
    assert len(gradlint("check", "--per-file-ignores", "x.py:GL101", *json).json()) == 2  # instead of the file's


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--per-file-ignores", "tests"), "`tests` is no PATTERN:RULE"),
        (("--per-file-ignores", "tests:GL999"), "--per-file-ignores: unknown rule `GL999`"),
        (("--config", "nowhere.toml"), "--config nowhere.toml: there is no such file, and it is no `key = value`."),
        (("--config", "."), "--config .: is a folder, and it is no `key = value`."),
        (("--config", "selct = []"), "--config: selct: unknown key `selct`; did you mean `select`?"),
        (("--config", "select = ["), "--config select = [: not valid TOML"),
        (("--config", 'extend = "x"'), "--config: extend: `--config FILE` names a configuration here"),
        (("--config", 'output-format = "xml"'), "--config: output-format: unknown value `xml`"),
        (("--config", "a.toml", "--config", "b.toml"), "--config: more than one configuration file."),
        (("--config", "a.toml", "--isolated"), "--config FILE and --isolated cannot be used together."),
        (("--add-ignore", "--fix"), "--add-ignore and --fix cannot be used together."),
        (("--add-ignore", "-"), "--add-ignore and - (stdin) cannot be used together."),
        (("--fail-on", "never"), "'never' is not one of 'error', 'warning', 'advice'"),
    ],
)
def test_what_cannot_be_meant(gradlint: Command, project: Path, options: tuple[str, ...], told: str) -> None:
    for name in ("a.toml", "b.toml"):
        (project / name).write_text("")
    outcome = gradlint("check", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert told in outcome.err


def test_keys_on_the_command_line_go_over_the_file(gradlint: Command, project: Path) -> None:
    _write(project, "a.py")
    (project / "gradlint.toml").write_text('fail-on = "error"\n[severity]\nGL101 = "warning"\n')
    assert gradlint("check").code == 0
    assert gradlint("check", "--config", 'fail-on = "warning"').code == 1
    assert gradlint("check", "--config", 'severity.GL101 = "error"').code == 1
    assert gradlint("check", "--fail-on", "advice", "--config", 'fail-on = "error"').code == 1  # options over keys
    assert gradlint("check", "--isolated", "--config", 'ignore = ["GL101"]').code == 0
    (project / "other.toml").write_text('select = ["GL101"]\nfail-on = "error"\n')
    assert gradlint("check", "--config", "other.toml", "--config", 'ignore = ["GL101"]').code == 0


def test_short_options(gradlint: Command, project: Path) -> None:
    _write(project, "a.py")
    assert gradlint("check", "-e", "-n", "--cache-dir", "kept").code == 0
    assert not (project / "kept").exists()
    assert "--watch and --diff cannot be used together." in gradlint("check", "-w", "--diff").err


def test_the_format_of_the_configuration(gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(project, "a.py")
    (project / "gradlint.toml").write_text('output-format = "grouped"\n')
    assert gradlint("check").out.startswith("a.py:\n  ")
    assert gradlint("check", "--output-format", "json").codes() == ["GL101"]
    monkeypatch.setenv("GRADLINT_OUTPUT_FORMAT", "pylint")
    assert ": [GL101] " in gradlint("check").out


def test_results_are_kept_where_the_configuration_says(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(project, "sub/a.py")
    monkeypatch.delenv("GRADLINT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "home"))
    (project / "gradlint.toml").write_text('cache-dir = "kept"\n')
    (project / "sub" / ".git").mkdir()
    monkeypatch.chdir(project / "sub")
    assert "Nothing is kept in" in gradlint("clean").out
    gradlint("check")
    assert len(list((project / "kept").glob("gradlint-*.json"))) == 1
    (project / "kept" / "mine.json").write_text("{}")
    assert gradlint("clean").out == f"Removed the results of 1 project from {project / 'kept'}\n"
    assert [path.name for path in (project / "kept").glob("*.json")] == ["mine.json"]


def test_show_settings_can_be_read_again(gradlint: Command, project: Path) -> None:
    _write(project, "a.py", "b.py")
    given = (
        'preset = "strict"\nignore = ["GL2"]\nextend-exclude = ["b.py"]\ntarget-torch = "2.1"\nfail-on = "error"\n'
        '[per-file-ignores]\n"a.py" = ["GL3"]\n[severity]\nGL101 = "advice"\n[rules.GL105]\nthreshold = 0.5\n'
    )
    (project / "gradlint.toml").write_text(given)
    shown = gradlint("check", "--show-settings").out
    assert shown.startswith(f"# settings for {project / 'a.py'}\n# from {project / 'gradlint.toml'}\n")
    assert 'fail-on = "error"' in shown
    assert "GL201" not in shown
    assert "GL301" not in shown
    (project / "gradlint.toml").write_text(shown)
    again = gradlint("check", "--show-settings").out
    assert again.splitlines() == shown.splitlines()


@pytest.mark.parametrize("name", [".gradlint.toml", "gradlint.toml"])
def test_names_of_the_configuration(gradlint: Command, project: Path, name: str) -> None:
    _write(project, "a.py")
    (project / "pyproject.toml").write_text('[tool.gradlint]\nselect = ["GL2"]\n')
    (project / name).write_text('select = ["GL1"]\n')
    assert gradlint("check", "--output-format", "json").codes() == ["GL101"]


def test_ignored_comments(gradlint: Command, project: Path) -> None:
    (project / "a.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--add-ignore").code == 0
    assert gradlint("check", "--output-format", "json").codes() == []
    assert gradlint("check", "--ignore-noqa", "--output-format", "json").codes() == ["GL101"]
    assert gradlint("check", "--output-format", "json").codes() == []  # and it is kept apart
    (project / "a.py").write_text("import torch\nx = 1  # gradlint: ignore[GL101, GL999]\n")
    assert gradlint("check", "--output-format", "json").codes() == ["GL901", "GL902"]
    assert gradlint("check", "--ignore-noqa", "--output-format", "json").codes() == []


def test_version(gradlint: Command) -> None:
    assert gradlint("version").out == gradlint("--version").out
    assert gradlint("version", "--output-format", "json").json() == {"name": "torch-gradlint", "version": __version__}
