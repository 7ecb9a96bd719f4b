"""`gradlint clean`: forgets the results of earlier runs."""

from __future__ import annotations

import os

import click

from gradlint.cli.request import CACHE_DIR
from gradlint.config.load import ConfigTree
from gradlint.model import counted
from gradlint.runner.cache import user_folder


@click.command()
@CACHE_DIR
def clean(cache_dir: str | None) -> int:
    """Forget the results of earlier runs, of all projects."""
    folder = cache_dir or ConfigTree().at(os.getcwd()).run.cache_dir or user_folder()
    kept = [] if folder is None else _kept(folder)
    for file in kept:
        try:
            os.unlink(file)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise click.ClickException(f"{file} cannot be removed: {error.strerror}") from None
    many = f"the results of {counted(len(kept), 'project')}"
    click.echo(f"Removed {many} from {folder}" if kept else f"Nothing is kept in {folder or 'any folder'}")
    return 0


def _kept(folder: str) -> list[str]:
    """Only what is ours: the folder may be one of the user's."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.path for e in entries if e.name.startswith("gradlint-") and e.name.endswith(".json"))
    except OSError:
        return []
