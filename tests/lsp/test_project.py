"""Files that are open together: each is told what the others know of it, saved or not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lsprotocol import types

from tests.cli.test_project import ADDS_UP, ASKED, DIVIDED, DIVIDES, ENGINE, MAIN, PLAIN_MAIN
from tests.lsp.editor import Editor, applied, edits_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
TIDY = "import torch\n\ndef tidy(model):\n    {}\n"
CLIPS = TIDY.format("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
CLIPS_NOT = TIDY.format("print(model)")
#: the title of the fix that makes DIVIDED of ASKED
DIVIDE = "Divide the loss by `n`"
TRAIN = """\
from losses import tidy

def train(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        tidy(model)
"""


def _project(editor: Editor, name: str, **files: str) -> list[str]:
    """A project on the disk; the addresses of its files."""
    root: Path = editor.root
    folder = root / name
    folder.mkdir()
    (folder / "gradlint.toml").write_text("project = true\n", encoding="utf-8")
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(text, encoding="utf-8")
    return [(folder / f"{stem}.py").as_uri() for stem in files]


async def _shows(editor: Editor, uri: str, *wanted: tuple[str, int]) -> list[types.Diagnostic]:
    """What is shown for a file, as soon as it is this: codes and lines, from 0."""

    def shown() -> list[types.PublishDiagnosticsParams]:
        last = [told for told in editor.published if told.uri == uri][-1:]
        return [told for told in last if [(d.code, d.range.start.line) for d in told.diagnostics] == list(wanted)]

    (told,) = await editor.until(shown)
    return list(told.diagnostics)


async def test_a_caller_that_is_open_is_asked_as_it_stands_in_the_editor(editor: Editor) -> None:
    engine, main = _project(editor, "caller", engine=ENGINE, main=PLAIN_MAIN)
    editor.open(engine, ENGINE)
    editor.open(main, PLAIN_MAIN)
    await editor.codes(engine, 1)
    editor.replace(main, 2, MAIN)
    (found,) = await _shows(editor, engine, ("GL501", 3))
    *_, line = found.related_information or []
    assert (line.location.uri, line.location.range.start.line) == (main, 7)
    editor.type(engine, 2, "# a remark\n", (0, 0))
    await _shows(editor, engine, ("GL501", 4))
    editor.replace(main, 3, PLAIN_MAIN)
    await _shows(editor, engine)
    editor.replace(main, 4, MAIN)
    await _shows(editor, engine, ("GL501", 4))
    editor.close(main)  # it was never saved
    await _shows(editor, engine)


async def test_a_caller_that_is_not_open_is_asked_as_it_is_on_the_disk(editor: Editor) -> None:
    engine, main = _project(editor, "closed", engine=ENGINE, main=MAIN)
    editor.open(engine, ENGINE)
    await _shows(editor, engine, ("GL501", 3))
    root: Path = editor.root
    (root / "closed" / "main.py").write_text(PLAIN_MAIN, encoding="utf-8")
    event = types.FileEvent(main, types.FileChangeType.Changed)
    editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await _shows(editor, engine)


async def test_a_project_without_a_mark_begins_at_the_folder_that_is_open(editor: Editor) -> None:
    root: Path = editor.root
    (root / "unmarked").mkdir()
    main = root / "unmarked" / "main.py"
    main.write_text(MAIN.replace("from engine", "from engine_at_the_top"), encoding="utf-8")
    engine = (root / "engine_at_the_top.py").as_uri()
    editor.open(engine, ENGINE)
    (found,) = await _shows(editor, engine, ("GL501", 3))
    *_, line = found.related_information or []
    assert line.location.uri == main.as_uri()


async def test_what_a_file_imports_is_followed_as_it_stands_in_the_editor(editor: Editor) -> None:
    losses, train = _project(editor, "callee", losses=CLIPS_NOT, train=TRAIN)
    editor.open(train, TRAIN)
    editor.open(losses, CLIPS_NOT)
    assert await editor.codes(train, 1) == []
    editor.replace(losses, 2, CLIPS)
    await _shows(editor, train, ("GL101", 7))
    editor.replace(losses, 3, CLIPS_NOT)
    await _shows(editor, train)


async def test_a_caller_that_knows_better_is_believed_while_somebody_types(editor: Editor) -> None:
    loop = ENGINE.replace(" or i + 1 == len(loader)", "").replace("n)", "cfg)", 1).replace(" n", " cfg.accum")
    caller = "from engine import train_one_epoch\n\n\nclass C:\n    accum = 1\n\n\ndef main(m, optimizer, loader):\n"
    engine, _ = _project(editor, "better", engine=loop, run=caller + "    train_one_epoch(m, optimizer, loader, C)\n")
    editor.open(engine, loop)
    await _shows(editor, engine, ("GL304", 5))
    await _shows(editor, engine)
    editor.type(engine, 2, "# a remark\n", (0, 0))
    assert await editor.codes(engine, 2) == []


@pytest.mark.parametrize(
    ("callers", "title", "fixed"),
    [
        ({"wrong": ADDS_UP}, DIVIDE, DIVIDED),
        ({"right": DIVIDES}, None, ASKED),
        ({"right": DIVIDES, "wrong": ADDS_UP}, f"{DIVIDE} (unsafe)", ASKED),
    ],
    ids=["wrong caller", "right caller", "both"],
)
@pytest.mark.parametrize("are_open", [False, True], ids=["on the disk", "open"])
async def test_what_is_offered_and_fixed_is_as_safe_as_all_callers_let_it_be(
    editor: Editor, request: pytest.FixtureRequest,
    callers: dict[str, str], title: str | None, fixed: str, *, are_open: bool,
) -> None:  # fmt: skip
    on_disk = dict.fromkeys(callers, "") if are_open else callers
    engine, *others = _project(editor, re.sub(r"\W+", "_", request.node.name), engine=ASKED, **on_disk)
    for uri, text in zip(others, callers.values(), strict=True):
        if are_open:
            editor.open(uri, text)
    editor.open(engine, ASKED)
    fixes = [a for a in await editor.actions(engine, 3, only=["quickfix"]) if a.edit and "Ignore" not in a.title]
    assert [(a.title, a.is_preferred) for a in fixes] == ([] if title is None else [(title, title == DIVIDE)])
    every = await editor.actions(engine, 0, only=["source.fixAll"])
    edits = [edit for action in every for edit in edits_of(action.edit)[engine]]
    assert applied(ASKED, edits) == fixed


async def test_what_was_offered_is_looked_for_again_when_a_caller_has_changed(editor: Editor) -> None:
    engine, right = _project(editor, "again", engine=ASKED, right="")
    editor.open(engine, ASKED)
    editor.open(right, "")
    assert DIVIDE in [action.title for action in await editor.actions(engine, 3)]
    editor.replace(right, 2, DIVIDES)
    assert DIVIDE not in [action.title for action in await editor.actions(engine, 3)]
    editor.close(right)  # it was never saved
    assert DIVIDE in [action.title for action in await editor.actions(engine, 3)]
