"""Diagnostics that the server publishes of its own accord, through the real process."""

from __future__ import annotations

import pytest
from lsprotocol import types

from tests.lsp.editor import CLIP_LINE, LATE_CLIP, RIGHT, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def test_opening_a_document_tells_what_is_wrong_with_it(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    (found,) = await editor.told(uri, 1)
    assert (found.code, found.source, found.severity) == ("GL101", "gradlint", types.DiagnosticSeverity.Error)
    assert found.range == types.Range(types.Position(CLIP_LINE, 8), types.Position(CLIP_LINE, 63))
    assert found.code_description is not None
    assert found.code_description.href.endswith("GL101.md")
    assert found.tags is None
    story = found.related_information or []
    assert [(told.location.uri, told.location.range.start.line) for told in story] == [(uri, CLIP_LINE - 1)]


async def test_changing_it_gives_diagnostics_of_the_new_version(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    assert await editor.codes(uri, 1) == ["GL101"]
    editor.replace(uri, 2, RIGHT)
    assert await editor.codes(uri, 2) == []
    editor.replace(uri, 3, LATE_CLIP)
    assert await editor.codes(uri, 3) == ["GL101"]


async def test_a_burst_of_changes_is_answered_for_the_last(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    for version in range(2, 52):
        editor.type(uri, version, "# a remark\n", (0, 0))
    (found,) = await editor.told(uri, 51)
    assert found.range.start.line == CLIP_LINE + 50
    told = [version for version in editor.versions(uri) if version is not None]
    assert told == sorted(told)
    assert len(told) < 6  # two, unless the machine pauses in the midst of it


async def test_closing_takes_the_diagnostics_away(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    editor.close(uri)
    await editor.until(lambda: editor.versions(uri)[-1] is None)
    assert list(editor.published[-1].diagnostics) == []


async def test_a_document_that_is_closed_at_once_is_silent_in_the_end(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    editor.close(uri)
    other = uri.replace("train", "other")
    editor.open(other, LATE_CLIP)
    await editor.told(other, 1)
    assert list([p for p in editor.published if p.uri == uri][-1].diagnostics) == []


async def test_opened_again_it_starts_anew(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP, version=7)
    assert await editor.codes(uri, 7) == ["GL101"]
    editor.close(uri)
    editor.open(uri, RIGHT, version=1)
    assert await editor.codes(uri, 1) == []


# -- while somebody types


async def test_half_a_line_leaves_what_was_found_where_it_has_moved(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    editor.type(uri, 2, "import numpy as np\nx = (", (0, 0))
    (found,) = await editor.told(uri, 2)
    assert (found.code, found.range.start.line) == ("GL101", CLIP_LINE + 1)
    assert [told.location.range.start.line for told in found.related_information or []] == [CLIP_LINE]
    editor.type(uri, 3, ")\n", (1, 5))
    (found,) = await editor.told(uri, 3)
    assert (found.code, found.range.start.line) == ("GL101", CLIP_LINE + 2)


async def test_what_is_deleted_is_not_kept_in_a_broken_text(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    editor.type(uri, 2, "oops(", (CLIP_LINE, 0), (CLIP_LINE + 1, 0))
    assert await editor.codes(uri, 2) == []


async def test_a_syntax_error_is_told_when_it_is_saved(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.told(uri, 1)
    editor.type(uri, 2, "x = (\n", (0, 0))
    assert await editor.codes(uri, 2) == ["GL101"]
    editor.save(uri)
    await editor.until(lambda: editor.versions(uri) == [1, 2, 2])
    assert await editor.codes(uri, 2) == ["GL101", "GL900"]
    editor.type(uri, 3, "y", (0, 0))  # it is still there, and is not taken away and brought back at each key
    assert await editor.codes(uri, 3) == ["GL101", "GL900"]
    editor.type(uri, 4, "", (0, 0), (1, 0))
    assert await editor.codes(uri, 4) == ["GL101"]


async def test_a_broken_document_is_told_when_it_is_opened(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP + "x = (\n")
    assert await editor.codes(uri, 1) == ["GL900"]


# -- what texts there are


async def test_characters_are_counted_in_utf_16(editor: Editor, uri: str) -> None:
    text = LATE_CLIP.replace("        torch.nn.utils", '        "😀é"; torch.nn.utils')
    editor.open(uri, text)
    (found,) = await editor.told(uri, 1)
    assert found.range.start == types.Position(CLIP_LINE, 8 + 5 + 2)
    editor.type(uri, 2, "", (CLIP_LINE, 9), (CLIP_LINE, 11))  # the emoji, both halves
    (found,) = await editor.told(uri, 2)
    assert found.range.start == types.Position(CLIP_LINE, 8 + 3 + 2)


async def test_windows_line_ends(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP.replace("\n", "\r\n"))
    (found,) = await editor.told(uri, 1)
    assert found.range == types.Range(types.Position(CLIP_LINE, 8), types.Position(CLIP_LINE, 63))
    editor.type(uri, 2, "# x\r\n", (0, 0))
    (found,) = await editor.told(uri, 2)
    assert found.range.start.line == CLIP_LINE + 1


async def test_a_form_feed_is_no_line(editor: Editor, uri: str) -> None:
    editor.open(uri, "x = 1\n\x0c\n" + LATE_CLIP)
    (found,) = await editor.told(uri, 1)
    assert found.range.start.line == CLIP_LINE + 2


async def test_a_coding_line_does_not_shift_anything(editor: Editor, uri: str) -> None:
    text = "# -*- coding: latin-1 -*-\n" + LATE_CLIP.replace("        torch.nn.utils", '        "éé"; torch.nn.utils')
    editor.open(uri, text)
    (found,) = await editor.told(uri, 1)
    assert found.range.start == types.Position(CLIP_LINE + 1, 8 + 6)


@pytest.mark.parametrize(
    "text",
    ["", "\0" + LATE_CLIP, "\ud800 = 1\n" + LATE_CLIP, "import torch\nx = " + "(" * 400, "torch\n" * 20_000],
    ids=["empty", "binary", "half a character", "nested", "long"],
)
async def test_odd_texts_do_no_harm(editor: Editor, uri: str, text: str) -> None:
    editor.open(uri, text)
    await editor.told(uri, 1)
    editor.replace(uri, 2, LATE_CLIP)
    assert await editor.codes(uri, 2) == ["GL101"]


@pytest.mark.parametrize(
    "address",
    [
        "untitled:Untitled-1",
        "file:///c%3A/Users/me/train.py",
        "file:///C:/Users/me/train%20me.py",
        "file://server/share/train.py",
        "vscode-vfs://github/me/train.py",
        "inmemory:/train.py?query#fragment",
    ],
)
async def test_any_address_will_do(editor: Editor, address: str) -> None:
    editor.open(address, LATE_CLIP)
    assert await editor.codes(address, 1) == ["GL101"]
    editor.close(address)


async def test_other_languages_are_left_alone(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP, language="markdown")
    editor.type(uri, 2, "x", (0, 0))
    editor.save(uri)
    editor.close(uri)
    last = uri.replace("train", "last")
    editor.open(last, LATE_CLIP)
    await editor.told(last, 1)
    assert editor.versions(uri) == []


async def test_silenced_findings_are_not_told(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP.replace(", 1.0)", ", 1.0)  # gradlint: ignore[GL101]"))
    assert await editor.codes(uri, 1) == []
