"""``lcc-export lucene``, ``tantivy``: to indexes of libraries, written by this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click

from lcc.export.engines.lucene import JARS, Lucene
from lcc.export.engines.tantivy import Tantivy
from lcc.export.filling import BATCH_PAGES, Index, fill
from lcc.export.indexing import SELECTION, tell_outcome
from lcc.export.run import Asked
from lcc.export.source import Source, pass_source
from lcc.roles.cu.query_options import asked_fields, query_options

F = TypeVar("F", bound=Callable[..., Any])
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _index_command(name: str) -> Callable[[F], click.Command]:
    """A command with what both have."""

    def decorate(function: F) -> click.Command:
        command: Any = pass_source(function)
        command = click.argument("folder", type=_FOLDER)(command)
        command = query_options(*SELECTION)(command)
        for option in (
            click.option("--wait", type=click.IntRange(0), default=0, metavar="SECONDS", help="Wait for a change."),
            click.option(
                "--batch-pages",
                type=click.IntRange(1),
                default=BATCH_PAGES,
                metavar="N",
                help=f"Pages between two commits.  Default: {BATCH_PAGES}.",
            ),
            click.option("--rebuild", is_flag=True, help="Export everything again, in one commit."),
        ):
            command = option(command)
        return click.command(name)(command)

    return decorate


@_index_command("lucene")
@click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=JARS,
    help=f"Folder with the jars of Lucene 8.  Default: {JARS}.",
)
def lucene(source: Source, /, folder: Path, jars: Path, **options: Any) -> None:
    """Export to a Lucene index in FOLDER.

    The first run writes everything, later ones the changes since the last commit.
    """
    _run(source, "lucene", lambda: Lucene(folder, jars), options)


@_index_command("tantivy")
def tantivy(source: Source, /, folder: Path, **options: Any) -> None:
    """Export to a tantivy index in FOLDER.

    The first run writes everything, later ones the changes since the last commit.
    """
    _run(source, "tantivy", lambda: Tantivy(folder), options)


COMMANDS = (lucene, tantivy)


def _run(source: Source, name: str, opened: Callable[[], Index], options: dict[str, Any]) -> None:
    asked = Asked(asked_fields(options), {"engine": name}, options["rebuild"], options["wait"])
    with closing(opened()) as index, source.cache() as cache:
        outcome = fill(cache, index, asked, options["batch_pages"])
    tell_outcome(outcome, keeps=True)
