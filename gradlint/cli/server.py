"""`gradlint server`: the language server for editors."""

from __future__ import annotations

import click

_PORTS = 65535


@click.command()
@click.option("--tcp", metavar="[HOST:]PORT", help="Wait for one editor on this port, and speak to it there.")
@click.option("--stdio", is_flag=True, help="Speak through stdin and stdout; this is the default.")
def server(tcp: str | None, stdio: bool) -> int:
    """Run the language server for editors (needs the extra `lsp`)."""
    if tcp is not None and stdio:
        raise click.UsageError("--tcp and --stdio cannot be used together.")
    address = None if tcp is None else _address(tcp)
    try:
        from gradlint.lsp.handlers import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol", "attrs", "cattrs"):
            raise
        raise click.UsageError(
            f'the language server needs the package {error.name}: pip install "torch-gradlint[lsp]"'
        ) from None
    made = make_server()
    try:
        if address is None:
            made.start_io()
        else:
            made.start_tcp(*address)
    finally:
        made.end()
    return 0 if made.asked_to_end else 1


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) <= _PORTS:
        raise click.UsageError(f"--tcp: `{text}` is no port; give PORT or HOST:PORT, such as 127.0.0.1:2087.")
    return host.strip("[]") or "127.0.0.1", int(port)
