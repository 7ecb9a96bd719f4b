"""Servers to talk to: one for all tests that say nothing of its settings, and as many as a test needs of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, client_capabilities

from tests.lsp.editor import SERVER, Editor

_numbers = itertools.count()

#: starts a server for the folder, with these capabilities and options
Start = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest_lsp.fixture(config=ClientServerConfig(server_command=SERVER, client_factory=Editor), scope="session")  # type: ignore[untyped-decorator] # its own
async def editor(lsp_client: Editor, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """An editor to which the server tells what it finds (Neovim as it was before it asked)."""
    root = tmp_path_factory.mktemp("workspace")
    lsp_client.root = root
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("neovim@v0.9.1"), root_uri=root.as_uri())
    )
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def uri(editor: Editor) -> str:
    """The address of a file that no other test knows; it is not on the disk."""
    root: Path = editor.root
    return (root / f"train_{next(_numbers)}.py").as_uri()


@pytest.fixture
def start() -> Start:
    return started


@asynccontextmanager
async def started(
    *folders: Path, capabilities: types.ClientCapabilities | None = None, options: object = None
) -> AsyncIterator[Editor]:
    """A server of one's own."""
    config = ClientServerConfig(server_command=SERVER, client_factory=Editor)
    editor = await config.start()
    assert isinstance(editor, Editor)
    await editor.initialize_session(
        types.InitializeParams(
            capabilities=capabilities or types.ClientCapabilities(),
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
            initialization_options=options,
        )
    )
    try:
        yield editor
        await editor.shutdown_session()
    finally:
        await editor.stop()  # type: ignore[no-untyped-call] # its own
