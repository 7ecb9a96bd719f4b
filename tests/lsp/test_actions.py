"""Fixes, comments and pages that are offered at a place, through the real process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcRequestCancelled

from tests.lsp.conftest import Start
from tests.lsp.editor import CLIP_LINE, LATE_CLIP, RIGHT, Editor, applied, edits_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parent.parent.parent
#: takes a moment to fix
MISTAKES = (ROOT / "examples" / "train_with_mistakes.py").read_text(encoding="utf-8")
#: line 4 has a finding whose fix is unsafe (GL601)
UNSAFE = """\
import torch

def likelihood_loss(logits, y):
    picked = torch.softmax(logits, dim=-1).gather(1, y)
    return -torch.log(picked).mean()
"""


async def test_what_is_offered_at_a_finding(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    actions = await editor.actions(uri, CLIP_LINE)
    assert [(action.kind, action.is_preferred) for action in actions] == [
        ("quickfix", True),
        ("quickfix", False),
        ("quickfix", None),
        ("source.fixAll.gradlint", None),
    ]
    assert [action.title for action in actions[1:]] == [
        "Ignore GL101 (clip-after-step) on this line",
        "Explain GL101",
        "Fix all gradlint findings",
    ]
    (shown,) = actions[0].diagnostics or []
    assert (shown.code, shown.range.start.line) == ("GL101", CLIP_LINE)


async def test_the_fix_puts_it_right(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    fix = (await editor.actions(uri, CLIP_LINE, only=["quickfix"]))[0]
    assert applied(LATE_CLIP, edits_of(fix.edit)[uri]) == RIGHT


async def test_a_fix_keeps_line_ends_and_counts_as_the_editor_does(editor: Editor, uri: str) -> None:
    text = LATE_CLIP.replace("optimizer.step()", 'optimizer.step()  # 😀 "é"').replace("\n", "\r\n")
    editor.open(uri, text)
    fix = (await editor.actions(uri, CLIP_LINE))[0]
    after = applied(text, edits_of(fix.edit)[uri])
    assert after == RIGHT.replace("optimizer.step()", 'optimizer.step()  # 😀 "é"').replace("\n", "\r\n")


async def test_nothing_is_offered_elsewhere_but_to_fix_all(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    assert [a.title for a in await editor.actions(uri, 0, 0)] == ["Fix all gradlint findings"]
    editor.open(uri + "x.py", RIGHT)
    assert await editor.actions(uri + "x.py", 0, 0) == []


async def test_ignoring_silences_it(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    ignore = next(a for a in await editor.actions(uri, CLIP_LINE) if a.title.startswith("Ignore"))
    after = applied(LATE_CLIP, edits_of(ignore.edit)[uri])
    assert after.splitlines()[CLIP_LINE].endswith("1.0)  # gradlint: ignore[GL101]")
    editor.replace(uri, 2, after)
    assert await editor.codes(uri, 2) == []


@pytest.mark.parametrize("only", ["source.fixAll", "source.fixAll.gradlint", "source"])
async def test_fix_all_is_answered_with_its_edit_and_nothing_else(editor: Editor, uri: str, only: str) -> None:
    text = LATE_CLIP + UNSAFE.removeprefix("import torch\n")
    editor.open(uri, text)
    (action,) = await editor.actions(uri, 0, 0, only=[only])
    assert action.kind == "source.fixAll.gradlint"
    after = applied(text, edits_of(action.edit)[uri])
    assert after == RIGHT + UNSAFE.removeprefix("import torch\n")
    editor.replace(uri, 2, after)
    assert (await editor.codes(uri, 1), await editor.codes(uri, 2)) == (["GL101", "GL601"], ["GL601"])


async def test_other_kinds_are_not_ours(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    assert await editor.actions(uri, CLIP_LINE, only=["refactor", "source.organizeImports"]) == []


async def test_nothing_to_fix_is_no_action(editor: Editor, uri: str) -> None:
    editor.open(uri, RIGHT)
    assert await editor.actions(uri, 0, 0, only=["source.fixAll"]) == []


async def test_fix_all_as_a_command_edits_the_document(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    done = await editor.workspace_execute_command_async(types.ExecuteCommandParams("gradlint.fixAll", [uri]))
    assert done is True
    assert applied(LATE_CLIP, edits_of(editor.edits[-1].edit)[uri]) == RIGHT


async def test_unsafe_fixes_say_so(editor: Editor, uri: str) -> None:
    editor.open(uri, UNSAFE)
    (found,) = await editor.told(uri, 1)
    actions = await editor.actions(uri, 4, found.range.start.character)
    (fix,) = [a for a in actions if a.edit is not None and not a.title.startswith("Ignore")]
    assert fix.title.endswith(" (unsafe)")
    assert fix.is_preferred is False
    assert await editor.actions(uri, 4, only=["source.fixAll"]) == []


async def test_unsafe_fixes_are_applied_if_the_editor_says_so(start: Start, tmp_path: Path) -> None:
    async with start(tmp_path, options={"unsafeFixes": True}) as editor:
        uri = (tmp_path / "a.py").as_uri()
        editor.open(uri, UNSAFE)
        (action,) = await editor.actions(uri, 4, only=["source.fixAll"])
        after = applied(UNSAFE, edits_of(action.edit)[uri])
        editor.replace(uri, 2, after)
        assert (await editor.codes(uri, 1), await editor.codes(uri, 2)) == (["GL601"], [])


async def test_an_action_for_a_text_that_is_gone_is_refused(editor: Editor, uri: str) -> None:
    editor.open(uri, MISTAKES)
    await editor.told(uri, 1)
    with editor.at_once():
        asked = asyncio.ensure_future(editor.actions(uri, 0, 0, only=["source.fixAll"]))
        await asyncio.sleep(0)  # it is sent
        editor.type(uri, 2, "# x\n", (0, 0))
    with pytest.raises(JsonRpcException) as caught:
        await asked
    assert caught.value.code == types.LSPErrorCodes.ContentModified
    assert await editor.codes(uri, 2) == await editor.codes(uri, 1)


async def test_a_cancelled_request_is_answered_as_such_and_the_next_one_works(editor: Editor, uri: str) -> None:
    editor.open(uri, MISTAKES)
    await editor.told(uri, 1)
    place = types.Range(types.Position(0, 0), types.Position(0, 0))
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri), place, types.CodeActionContext([], ["source.fixAll"])
    )
    with editor.at_once():
        asked = editor.protocol.send_request(types.TEXT_DOCUMENT_CODE_ACTION, params, msg_id="to be cancelled")
        editor.cancel_request(types.CancelParams(id="to be cancelled"))
    with pytest.raises(JsonRpcRequestCancelled):
        await asyncio.wrap_future(asked)
    assert len(await editor.actions(uri, 0, 0, only=["source.fixAll"])) == 1


# -- pages


async def test_hover_on_a_finding_shows_the_rules_page(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    hover = await editor.hover(uri, CLIP_LINE, 20)
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.kind is types.MarkupKind.Markdown
    assert hover.contents.value.startswith("# clip-after-step (GL101)\n")
    assert hover.range == types.Range(types.Position(CLIP_LINE, 8), types.Position(CLIP_LINE, 63))
    assert await editor.hover(uri, 0, 0) is None


@pytest.mark.parametrize(
    ("comment", "word", "page"),
    [
        ("# gradlint: ignore[GL101, GL602]", "GL602", "GL602"),
        ("# gradlint: ignore[clip-after-step]", "after", "GL101"),
        ("# gradlint: ignore-file[GL101]", "GL101", "GL101"),
        ("# 😀 # noqa: E501, GL101", "GL101", "GL101"),
    ],
)
async def test_hover_on_a_code_in_a_comment(editor: Editor, uri: str, comment: str, word: str, page: str) -> None:
    editor.open(uri, f"x = 1  {comment}\n")
    await editor.told(uri, 1)
    line = f"x = 1  {comment}"
    hover = await editor.hover(uri, 0, len(line[: line.index(word) + 1].encode("utf-16-le")) // 2)
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert f"({page})" in hover.contents.value.splitlines()[0]
    assert await editor.hover(uri, 0, 8) is None


async def test_explaining_opens_the_page_where_the_editor_can(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    action = next(a for a in await editor.actions(uri, CLIP_LINE) if a.title == "Explain GL101")
    assert action.command is not None
    params = types.ExecuteCommandParams(action.command.command, action.command.arguments)
    answer = await editor.workspace_execute_command_async(params)
    shown = editor.shown_documents[-1]
    page = Path(unquote(urlparse(shown.uri).path)).read_text(encoding="utf-8")
    assert page.startswith("# clip-after-step (GL101)\n")
    assert page == answer["markdown"]  # type: ignore[index] # LSPAny


@pytest.mark.parametrize(
    ("command", "arguments"), [("gradlint.nothing", []), ("gradlint.explainRule", []), ("gradlint.explainRule", [1, 2])]
)
async def test_wrong_commands_are_errors_and_no_more(editor: Editor, command: str, arguments: list[object]) -> None:
    with pytest.raises(JsonRpcException):
        await editor.workspace_execute_command_async(types.ExecuteCommandParams(command, arguments))
    answer = await editor.workspace_execute_command_async(
        types.ExecuteCommandParams("gradlint.fixAll", ["file:///no.py"])
    )
    assert answer is False
