"""`gradlint version`: the same as `gradlint --version`, and for programs."""

from __future__ import annotations

import json

import click

from gradlint import DISTRIBUTION, __version__
from gradlint.cli.selection import FORMAT


@click.command()
@FORMAT
def version(output_format: str) -> int:
    """Say which version this is."""
    if output_format == "json":
        click.echo(json.dumps({"name": DISTRIBUTION, "version": __version__}))
    else:
        click.echo(f"gradlint, version {__version__}")
    return 0
