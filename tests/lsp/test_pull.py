"""Diagnostics for an editor that asks for them: it is told nothing twice, and counts characters as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig

from tests.lsp.editor import CLIP_LINE, LATE_CLIP, RIGHT, SERVER, Editor, edits_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
CAPABILITIES = types.ClientCapabilities(
    text_document=types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities()),
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
    ),
    general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf8]),
)


@pytest_lsp.fixture(config=ClientServerConfig(server_command=SERVER, client_factory=Editor), scope="module")  # type: ignore[untyped-decorator] # its own
async def editor(lsp_client: Editor, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    root = tmp_path_factory.mktemp("workspace")
    lsp_client.root = root
    made = await lsp_client.initialize_session(
        types.InitializeParams(capabilities=CAPABILITIES, root_uri=root.as_uri())
    )
    assert made.capabilities.position_encoding == types.PositionEncodingKind.Utf8
    provider = made.capabilities.diagnostic_provider
    assert provider is not None
    assert (provider.inter_file_dependencies, provider.workspace_diagnostics) == (True, False)
    yield
    await lsp_client.shutdown_session()


def _items(report: types.DocumentDiagnosticReport) -> tuple[str | None, list[types.Diagnostic]]:
    assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
    return report.result_id, list(report.items)


async def test_what_was_asked_for_is_answered_and_nothing_is_published(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    name, (found,) = _items(await editor.pull(uri))
    assert (found.code, found.range.start.line) == ("GL101", CLIP_LINE)
    again = await editor.pull(uri, name)
    assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
    assert again.result_id == name
    editor.replace(uri, 2, RIGHT)
    other, found_now = _items(await editor.pull(uri, name))
    assert found_now == []
    assert other != name
    editor.close(uri)
    assert _items(await editor.pull(uri)) == (None, [])
    assert editor.published == []


async def test_configuration_files_are_watched(editor: Editor) -> None:
    options = await editor.until(lambda: editor.registered.get(types.WORKSPACE_DID_CHANGE_WATCHED_FILES))
    watched = {watcher["globPattern"] for watcher in options["watchers"]}
    assert {"**/pyproject.toml", "**/gradlint.toml", "**/.gitignore"} <= watched


async def test_a_change_that_changes_nothing_shown_is_unchanged(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    name, _ = _items(await editor.pull(uri))
    editor.type(uri, 2, "\n# the end\n", (CLIP_LINE + 1, 0))
    assert isinstance(await editor.pull(uri, name), types.RelatedUnchangedDocumentDiagnosticReport)


async def test_who_asks_while_somebody_types_gets_the_newest(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    asked = []
    for version in range(2, 12):
        editor.type(uri, version, "# x\n", (0, 0))
        asked.append(asyncio.ensure_future(editor.pull(uri)))
    for report in await asyncio.gather(*asked):
        (found,) = _items(report)[1]
        assert found.code == "GL101"
    assert _items(await editor.pull(uri))[1][0].range.start.line == CLIP_LINE + 10


async def test_half_a_line_keeps_what_was_found(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.pull(uri)
    editor.type(uri, 2, "x = (\n", (0, 0))
    assert [(d.code, d.range.start.line) for d in _items(await editor.pull(uri))[1]] == [("GL101", CLIP_LINE + 1)]
    editor.save(uri)
    assert [d.code for d in _items(await editor.pull(uri))[1]] == ["GL101", "GL900"]


async def test_characters_are_counted_in_utf_8_both_ways(editor: Editor, uri: str) -> None:
    text = LATE_CLIP.replace("        torch.nn.utils", '        "😀é"; torch.nn.utils')
    editor.open(uri, text)
    (found,) = _items(await editor.pull(uri))[1]
    assert found.range.start == types.Position(CLIP_LINE, 8 + 8 + 2)
    editor.type(uri, 2, "", (CLIP_LINE, 9), (CLIP_LINE, 13))  # the emoji, four bytes
    (found,) = _items(await editor.pull(uri))[1]
    assert found.range.start == types.Position(CLIP_LINE, 8 + 4 + 2)


async def test_edits_carry_the_version_for_editors_that_look_at_it(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP, version=5)
    fix = (await editor.actions(uri, CLIP_LINE))[0]
    assert edits_of(fix.edit).keys() == {uri}
    (change,) = fix.edit.document_changes or []  # type: ignore[union-attr] # the line above would have failed
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document == types.OptionalVersionedTextDocumentIdentifier(uri, 5)


async def test_other_settings_make_the_editor_ask_again(editor: Editor, uri: str) -> None:
    editor.open(uri, LATE_CLIP)
    await editor.pull(uri)
    counted = editor.diagnostic_refresh_count
    editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({"gradlint": {"ignore": ["GL101"]}}))
    await editor.until(lambda: editor.diagnostic_refresh_count > counted)
    assert _items(await editor.pull(uri))[1] == []
    editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({"gradlint": {"enable": True}}))
    await editor.until(lambda: editor.diagnostic_refresh_count > counted + 1)
    assert [d.code for d in _items(await editor.pull(uri))[1]] == ["GL101"]


async def test_explaining_says_it_where_the_editor_can_open_nothing(editor: Editor) -> None:
    await editor.workspace_execute_command_async(types.ExecuteCommandParams("gradlint.explainRule", ["GL101"]))
    (message,) = await editor.until(lambda: editor.messages)
    assert message.message.startswith("GL101: ")
    await editor.workspace_execute_command_async(types.ExecuteCommandParams("gradlint.explainRule", ["GL999"]))
    assert (await editor.until(lambda: editor.messages[1:]))[0].message == "gradlint knows no rule `GL999`"
