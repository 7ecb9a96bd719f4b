"""The walk: what is found, what is left out, and that nothing can make it hang or fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gradlint.config.load import ConfigTree
from gradlint.config.reading import ConfigError
from gradlint.runner.files import FileFinder, GitIgnore, MissingPathError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def _found(*paths: str, force_exclude: bool = False) -> list[str]:
    finder = FileFinder(ConfigTree(), force_exclude=force_exclude)
    return sorted(file.shown.replace(os.sep, "/") for file in finder.find(paths or (".",)))


def test_python_files_of_all_folders(tmp_path: Path) -> None:
    _write(tmp_path, "a.py", "b/c.py", "b/d/e.py", "b/notes.txt", "b/x.pyi", "b/n.ipynb", "b/y.pyc")
    assert _found() == ["a.py", "b/c.py", "b/d/e.py", "b/n.ipynb"]
    assert _found("b") == ["b/c.py", "b/d/e.py", "b/n.ipynb"]


@pytest.mark.parametrize(
    "name", [".venv", "venv", "build", "dist", "node_modules", "__pycache__", ".tox", "site-packages"]
)
def test_default_excludes(tmp_path: Path, name: str) -> None:
    _write(tmp_path, "a.py", f"{name}/b.py", f"src/{name}/b.py")
    assert _found() == ["a.py"]


def test_named_files_are_found_whatever_is_excluded(tmp_path: Path) -> None:
    _write(tmp_path, "build/b.py", "script")
    assert _found("build/b.py", "script") == ["build/b.py", "script"]
    assert _found("build/b.py", "script", force_exclude=True) == ["script"]


def test_a_named_excluded_folder_is_searched(tmp_path: Path) -> None:
    _write(tmp_path, "build/b.py")
    assert _found("build") == ["build/b.py"]
    assert _found("build", force_exclude=True) == []


def test_configured_excludes(tmp_path: Path) -> None:
    _write(tmp_path, "a.py", "legacy/b.py", "pkg/gen_x.py", "pkg/c.py", "build/d.py", "docs/deep/e.py")
    (tmp_path / "gradlint.toml").write_text('extend-exclude = ["legacy", "gen_*.py", "docs/*/e.py"]\n')
    assert _found() == ["a.py", "pkg/c.py"]
    (tmp_path / "gradlint.toml").write_text('exclude = ["pkg/"]\n')
    assert _found() == ["a.py", "build/d.py", "docs/deep/e.py", "legacy/b.py"]


def test_overlapping_paths_give_each_file_once(tmp_path: Path) -> None:
    _write(tmp_path, "b/c.py")
    assert _found(".", "b", "b/c.py", str(tmp_path)) == ["b/c.py"]
    assert _found("b/c.py", ".") == ["b/c.py"]


def test_paths_elsewhere_are_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "one/a.py", "two/b.py")
    monkeypatch.chdir(tmp_path / "one")
    assert _found("../two") == [str(tmp_path / "two" / "b.py")]


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="nowhere: No such file"):
        _found("nowhere")


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_that_lead_in_circles(tmp_path: Path) -> None:
    _write(tmp_path, "pkg/a.py")
    (tmp_path / "pkg" / "again").symlink_to(tmp_path)
    (tmp_path / "pkg" / "self.py").symlink_to("self.py")
    (tmp_path / "pkg" / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "pkg" / "link.py").symlink_to("a.py")
    assert _found() == ["pkg/a.py", "pkg/link.py"]


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_what_only_looks_like_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    _write(tmp_path, "folder.py/a.py")
    assert _found() == ["folder.py/a.py"]


def test_an_unreadable_folder_is_skipped_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "a.py", "secret/b.py")
    real = os.scandir

    def guarded(path: str) -> object:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", guarded)
    finder = FileFinder(ConfigTree())
    assert [file.shown for file in finder.find(["."])] == ["a.py"]
    assert [(skipped.shown, skipped.reason) for skipped in finder.skipped] == [("secret", "Permission denied")]


def test_gitignore_files_at_every_level(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    _write(tmp_path, "a.py", "gen/b.py", "pkg/c.py", "pkg/d_gen.py", "pkg/keep_gen.py", "pkg/sub/e.py")
    (tmp_path / ".gitignore").write_text("gen/\n*_gen.py\n")
    (tmp_path / "pkg" / ".gitignore").write_text("!keep_gen.py\n/sub\n")
    assert _found() == ["a.py", "pkg/c.py", "pkg/keep_gen.py"]
    # from below, the files above still count, up to the top of the checkout
    assert _found("pkg") == ["pkg/c.py", "pkg/keep_gen.py"]
    assert _found("pkg/d_gen.py", force_exclude=True) == []


def test_ignore_files_above_the_checkout_do_not_count(tmp_path: Path) -> None:
    _write(tmp_path, "repo/a.py")
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "repo" / ".git").mkdir()
    assert _found("repo") == ["repo/a.py"]


PATTERNS = [
    ["*.py"],
    ["build"],
    ["build/"],
    ["/a.py"],
    ["pkg/a.py"],
    ["/pkg/*"],
    ["**/a.py"],
    ["pkg/**"],
    ["pkg/**/a.py"],
    ["a?.py"],
    ["[ab]*.py"],
    ["[!a]*.py"],
    ["*.py", "!a.py"],
    ["pkg/*", "!pkg/sub/"],
    ["*", "!*/", "!*.py"],
    ["pkg", "!pkg/a.py"],
    ["# a.py", "\\#x.py"],
    ["a.py   "],
    ["\\!x.py"],
    ["sub/a.py"],
    ["**/sub/*.py"],
    ["pkg/s*b"],
    ["*/a.py"],
    ["a.*", "!*.py"],
    ["[a-b].py", "ab[.]py"],
    ["**"],
    ["pkg/su[!x]/a.py"],
]
PATHS = ["a.py", "b.py", "ab.py", "pkg/a.py", "pkg/b.py", "pkg/sub/a.py", "pkg/sub/deep/a.py", "build/a.py",
         "src/build/a.py", "sub/a.py", "#x.py", "!x.py"]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("patterns", PATTERNS, ids=" ".join)
def test_gitignore_agrees_with_git(tmp_path: Path, patterns: list[str]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    _write(tmp_path, *PATHS)
    (tmp_path / ".gitignore").write_text("\n".join(patterns) + "\n")
    (tmp_path / "gradlint.toml").write_text("exclude = []\n")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert _found() == sorted(name for name in listed.stdout.split("\0") if name.endswith(".py"))


def test_an_ignore_file_with_nonsense_is_harmless() -> None:
    ignore = GitIgnore("[\n[z-a]\n\\\n/\n!\n***\n[[:alpha:]\n")
    assert ignore.decision("a.py", "a.py", False) in (True, False, None)


def test_an_ignore_file_that_is_far_too_large_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, "a.py")
    (tmp_path / ".gitignore").write_text("*a*b\n" * 20_001)
    with pytest.raises(ConfigError, match=r"\.gitignore: larger than 100,000 bytes"):
        _found()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
@pytest.mark.parametrize("name", ["gradlint.toml", "pyproject.toml", "requirements.txt", ".gitignore"])
def test_a_pipe_is_never_waited_for(tmp_path: Path, name: str) -> None:
    _write(tmp_path, "a.py")
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match="not a regular file"):
        _found()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
def test_pipes_and_devices_are_no_targets(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    assert _found() == []
    for path in ("a.py", os.devnull):
        with pytest.raises(MissingPathError, match="not a regular file"):
            _found(path)
