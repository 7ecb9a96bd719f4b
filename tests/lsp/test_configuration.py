"""Settings: of the editor and of files, read again when they change, and survived when they are wrong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, client_capabilities

from tests.lsp.conftest import Start
from tests.lsp.editor import LATE_CLIP, SERVER, Editor, applied, edits_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
IGNORED = '[tool.gradlint]\nignore = ["GL101"]\n'


@pytest_lsp.fixture(config=ClientServerConfig(server_command=SERVER, client_factory=Editor), scope="module")  # type: ignore[untyped-decorator] # its own
async def editor(lsp_client: Editor, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """An editor with two folders open: the second one's configuration leaves GL101 out."""
    root = tmp_path_factory.mktemp("workspace")
    lsp_client.root = root
    for name in ("one", "two"):
        (root / name).mkdir()
    (root / "two" / "pyproject.toml").write_text(IGNORED, encoding="utf-8")
    folders = [types.WorkspaceFolder((root / name).as_uri(), name) for name in ("one", "two")]
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("neovim@v0.9.1"), workspace_folders=folders)
    )
    yield
    await lsp_client.shutdown_session()


def _file(editor: Editor, *names: str, text: str | None = None) -> tuple[Path, str]:
    root: Path = editor.root
    path = root.joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text, encoding="utf-8")
    return path, path.as_uri()


def _write(path: Path, text: str) -> None:
    """So that it is seen: two writes may fall into one tick of the clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def _changed_on_disk(editor: Editor, path: Path) -> None:
    event = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
    editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))


def _configure(editor: Editor, settings: object) -> None:
    editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))


async def _next_codes(editor: Editor, uri: str, count: int) -> list[str]:
    """What the publication after the first `count` says."""
    await editor.until(lambda: len(editor.versions(uri)) > count)
    last = [p for p in editor.published if p.uri == uri][-1]
    return [str(d.code) for d in last.diagnostics]


async def test_each_folder_has_its_own_configuration(editor: Editor) -> None:
    (_, one), (_, two) = _file(editor, "one", "a.py"), _file(editor, "two", "a.py")
    editor.open(one, LATE_CLIP)
    editor.open(two, LATE_CLIP)
    assert (await editor.codes(one, 1), await editor.codes(two, 1)) == (["GL101"], [])


async def test_the_nearest_file_counts(editor: Editor) -> None:
    _file(editor, "one", "sub", "gradlint.toml", text='ignore = ["GL101"]\n')
    _, uri = _file(editor, "one", "sub", "deep", "a.py")
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []


async def test_a_changed_file_is_read_again_when_the_editor_says_so(editor: Editor) -> None:
    path, uri = _file(editor, "watched", "a.py")
    config = path.with_name("pyproject.toml")
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == ["GL101"]
    _write(config, IGNORED)
    _changed_on_disk(editor, config)
    assert await _next_codes(editor, uri, 1) == []


async def test_a_changed_file_is_seen_without_that_when_something_is_saved(editor: Editor) -> None:
    path, uri = _file(editor, "unwatched", "a.py")
    config = path.with_name("gradlint.toml")
    _write(config, 'ignore = ["GL101"]\n')
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []
    _write(config, "")
    editor.save(uri)
    await editor.until(lambda: editor.published[-1].uri == uri and editor.published[-1].diagnostics)
    _write(config, 'ignore = ["GL101"]\n')
    other = path.with_name("b.py").as_uri()
    editor.open(other, LATE_CLIP)  # the first one is looked at again as well
    assert await editor.codes(other, 1) == []
    await editor.until(lambda: not [p for p in editor.published if p.uri == uri][-1].diagnostics)


async def test_a_broken_file_is_told_once_and_the_last_good_one_goes_on(editor: Editor) -> None:
    path, uri = _file(editor, "broken", "a.py")
    config = path.with_name("gradlint.toml")
    _write(config, 'ignore = ["GL101"]\n')
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []
    _write(config, "selct = 3\n")
    _changed_on_disk(editor, config)
    told = await editor.until(lambda: [m for m in editor.messages if "selct" in m.message])
    assert "did you mean `select`?" in told[0].message
    for version in (2, 3, 4):
        editor.type(uri, version, "# x\n", (0, 0))
        assert await editor.codes(uri, version) == []
    assert len([m for m in editor.messages if "selct" in m.message]) == 1
    _write(config, "")
    _changed_on_disk(editor, config)
    await editor.until(lambda: [p for p in editor.published if p.uri == uri][-1].diagnostics)


async def test_what_a_baseline_knows_is_silent_until_the_baseline_changes(editor: Editor) -> None:
    path, uri = _file(editor, "known", "a.py", text=LATE_CLIP)
    file = path.with_name("baseline.json")
    done = subprocess.run(
        [*SERVER[:-1], "check", "--no-cache", "--isolated", "--write-baseline", file.name, path.name],
        cwd=path.parent, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _write(path.with_name("gradlint.toml"), f'baseline = "{file.name}"\n')
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []
    assert await editor.actions(uri, 0, 0, only=["source.fixAll"]) == []
    second = LATE_CLIP + LATE_CLIP[len("import torch\n") :].replace("train", "tune")
    editor.replace(uri, 2, second)
    (found,) = await editor.told(uri, 2)
    assert found.range.start.line == 18
    (action,) = await editor.actions(uri, 0, 0, only=["source.fixAll"])
    assert applied(second, edits_of(action.edit)[uri]).count("1.0)\n        optimizer.step()") == 1
    _write(file, "broken")
    editor.save(uri)
    await editor.until(lambda: len([p for p in editor.published if p.uri == uri][-1].diagnostics) == 2)
    assert [m for m in editor.messages if "baseline.json: not a baseline" in m.message]


async def test_what_is_left_out_is_left_out(editor: Editor) -> None:
    path, _ = _file(editor, "one", "gradlint.toml", text='extend-exclude = ["generated", "*_pb2.py"]\n')
    _changed_on_disk(editor, path)
    silent = [
        _file(editor, "one", *names)[1] for names in (("generated", "a.py"), ("x_pb2.py",), ("venv", "lib", "a.py"))
    ]
    for uri in silent:
        editor.open(uri, LATE_CLIP)
        assert await editor.codes(uri, 1) == []
    _, uri = _file(editor, "one", "kept.py")
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == ["GL101"]
    assert await editor.actions(silent[0], 9) == []


async def test_what_git_ignores_is_left_out(editor: Editor) -> None:
    path, uri = _file(editor, "repository", "scratch", "a.py")
    top = path.parent.parent
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".gitignore").write_text("scratch/\n", encoding="utf-8")
    editor.workspace_did_change_workspace_folders(
        types.DidChangeWorkspaceFoldersParams(
            types.WorkspaceFoldersChangeEvent([types.WorkspaceFolder(top.as_uri(), "repository")], [])
        )
    )
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []


async def test_the_editors_settings_lie_over_the_files(editor: Editor) -> None:
    _, uri = _file(editor, "two", "b.py")
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []
    _configure(editor, {"gradlint": {"select": ["GL101"]}})
    await editor.until(lambda: [p for p in editor.published if p.uri == uri][-1].diagnostics)
    assert await editor.codes(uri, 1) == ["GL101"]
    _configure(editor, {"gradlint": {"enable": False}})
    await editor.until(lambda: not [p for p in editor.published if p.uri == uri][-1].diagnostics)
    _configure(editor, {"gradlint": {"enable": True}})


async def test_wrong_settings_are_told_and_the_last_good_ones_go_on(editor: Editor) -> None:
    _, uri = _file(editor, "three", "a.py")
    _configure(editor, {"gradlint": {"select": ["GL101"], "path": "x"}})
    _configure(editor, {"gradlint": {"select": ["GL777"]}})
    (told,) = await editor.until(lambda: [m for m in editor.messages if "GL777" in m.message])
    assert told.message.startswith("gradlint.select: unknown rule `GL777`")
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == ["GL101"]
    assert [m for m in editor.log_messages if "mean nothing to the server: path" in m.message]
    _configure(editor, {"gradlint": {"enable": True}})


async def test_settings_of_other_servers_change_nothing(editor: Editor) -> None:
    _, uri = _file(editor, "six", "a.py")
    _configure(editor, {"gradlint": {"ignore": ["GL101"]}})
    editor.set_configuration({"ignore": ["GL101"]}, section="gradlint")
    _configure(editor, {"python": {"analysis": {"ignore": []}}})
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == []
    _configure(editor, {"gradlint": {}})
    await editor.until(lambda: [p for p in editor.published if p.uri == uri][-1].diagnostics)
    assert await editor.codes(uri, 1) == ["GL101"]


async def test_settings_that_the_editor_keeps_are_asked_for(editor: Editor) -> None:
    _, uri = _file(editor, "four", "a.py")
    editor.set_configuration({"ignore": ["GL101"]}, section="gradlint")
    _configure(editor, None)
    editor.open(uri, LATE_CLIP)
    await editor.until(lambda: [p for p in editor.published if p.uri == uri and not p.diagnostics])
    editor.set_configuration({"enable": True}, section="gradlint")
    _configure(editor, None)
    await editor.until(lambda: [p for p in editor.published if p.uri == uri][-1].diagnostics)
    assert await editor.codes(uri, 1) == ["GL101"]


async def test_linting_on_save_only(editor: Editor) -> None:
    _, uri = _file(editor, "five", "a.py")
    _configure(editor, {"gradlint": {"run": "onSave"}})
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == ["GL101"]
    editor.replace(uri, 2, "x = 1\n")
    _, other = _file(editor, "five", "b.py")
    editor.open(other, LATE_CLIP)
    await editor.told(other, 1)
    assert editor.versions(uri)[-1] == 1
    editor.save(uri)
    assert await editor.codes(uri, 2) == []
    _configure(editor, {"gradlint": {"run": "onType"}})


@pytest.mark.slow
async def test_options_at_the_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "conf.toml").write_text('ignore = ["GL101"]\n', encoding="utf-8")
    uri = (tmp_path / "a.py").as_uri()
    for options, codes in (
        ({"settings": {"configuration": "conf.toml"}}, []),
        ({"preset": "quiet", "showSyntaxErrors": False}, ["GL101"]),
        ({"configuration": "missing.toml"}, ["GL101"]),
    ):
        async with start(tmp_path, options=options) as editor:
            editor.open(uri, LATE_CLIP)
            assert await editor.codes(uri, 1) == codes
            told = [m.message for m in editor.messages]
            assert any("missing.toml: cannot be read" in m for m in told) == ("missing.toml" in str(options))
            editor.replace(uri, 2, LATE_CLIP + "x = (\n")
            editor.save(uri)
            assert ("GL900" in await editor.codes(uri, 2)) == ("showSyntaxErrors" not in options)
