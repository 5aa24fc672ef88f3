"""``lcc-export swish-e``, ``swish++``, ``htdig``, ``omega``, ``ndjson``: to search engines."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.domain.wording import number
from lcc.export.consumers import Command, Consumer, File, Output
from lcc.export.engines.htdig import HtDig
from lcc.export.engines.mirror import Mirror, url_of
from lcc.export.engines.ndjson import NdJson
from lcc.export.engines.omega import Omega
from lcc.export.engines.swish_e import SwishE
from lcc.export.run import Asked, Engine, Outcome, export
from lcc.export.source import Source, pass_source
from lcc.export.state import State, StateError
from lcc.roles.cu.query_options import asked_fields, query_options

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)
SELECTION = (
    "provider",
    "mimetype",
    "prefix",
    "subtype",
    "fetched_from",
    "fetched_before",
    "modified_from",
    "modified_before",
)

_all_types = click.option(
    "--all-types", is_flag=True, help="Include binary content unchanged, for engines with filters."
)
_output = click.option(
    "-o",
    "--output",
    type=_FILE,
    help="Output file.  With --since it must not exist: it would not have been used yet.",
)
_batch_bytes = click.option(
    "--batch-bytes",
    type=click.IntRange(1),
    metavar="N",
    help="Run the command repeatedly, each time with about this many bytes.",
)


def _engine_command(name: str) -> Callable[[F], click.Command]:
    """A command with what all of them have."""

    def decorate(function: F) -> click.Command:
        command: Any = pass_source(function)
        command = click.argument("consumer", nargs=-1, type=click.UNPROCESSED)(command)
        command = query_options(*SELECTION)(command)
        for option in (
            click.option("--wait", type=click.IntRange(0), default=0, metavar="SECONDS", help="Wait for a change."),
            click.option("--rebuild", is_flag=True, help="Export everything again, regardless of the state file."),
            click.option(
                "--since", "state", type=_FILE, metavar="STATEFILE", help="Only changes since the last run."
            ),
        ):
            command = option(command)
        return click.command(name, context_settings={"allow_interspersed_args": False})(command)

    return decorate


@_engine_command("swish-e")
@_output
@_all_types
def swish_e(source: Source, /, output: Path | None, all_types: bool, **options: Any) -> None:
    """Export to SWISH-E (swish-e -S prog -i stdin).

    CONSUMER is a command that reads it; LCC_EXPORT in its environment is "full" or "changes".
    """
    consumer_for = _consumer_for(options, output)
    _run(source, options, SwishE(consumer_for, all_types), {"all_types": all_types}, "swish-e")


@_engine_command("omega")
@_output
@_batch_bytes
def omega(source: Source, /, output: Path | None, batch_bytes: int | None, **options: Any) -> None:
    """Export to Xapian Omega (scriptindex).

    CONSUMER is a command that reads it; LCC_EXPORT in its environment is "full" or "changes".
    """
    _check_batches(batch_bytes, options)
    _run(source, options, Omega(_consumer_for(options, output), batch_bytes=batch_bytes), {}, "omega")


@_engine_command("ndjson")
@_output
@_batch_bytes
@_all_types
@click.option("--index", metavar="NAME", help="Name of the index, in each action.")
def ndjson(
    source: Source,
    /,
    output: Path | None,
    batch_bytes: int | None,
    all_types: bool,
    index: str | None,
    **options: Any,
) -> None:
    """Export to OpenSearch and Elasticsearch (_bulk).

    CONSUMER is a command that reads it; LCC_EXPORT in its environment is "full" or "changes".
    """
    _check_batches(batch_bytes, options)
    engine = NdJson(_consumer_for(options, output), all_types, batch_bytes, index)
    _run(source, options, engine, {"all_types": all_types, "index": index}, "ndjson")


@_engine_command("swish++")
@click.option(
    "--mirror",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the pages, maintained by lcc-export.",
)
@_all_types
def swish_plus_plus(source: Source, /, folder: Path, all_types: bool, **options: Any) -> None:
    """Export to SWISH++, or any indexer of files.

    CONSUMER is a command that indexes the folder; it runs when something has changed.
    """
    words = options["consumer"]
    engine = Mirror(folder, (lambda mode: _command(words, mode)) if words else None, all_types)
    _run(source, options, engine, {"all_types": all_types, "folder": str(folder.absolute())}, "swish++")


@_engine_command("htdig")
@_all_types
def htdig(source: Source, /, all_types: bool, **options: Any) -> None:
    """Export to ht://Dig.

    CONSUMER is a command that runs htdig; it reads the URLs from its standard input, and htdig gets pages through
    lcc-htdig; LCC_EXPORT in its environment is "full" or "changes".
    """
    words = options["consumer"]
    if not words:
        raise click.UsageError("give the command that runs htdig")
    engine = HtDig(lambda mode, more: _command(words, mode, more), all_types)
    _run(source, options, engine, {"all_types": all_types}, "htdig")


@click.command("mirror-urls")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def mirror_urls(folder: Path) -> None:
    """Translate file names in a mirror to URLs.

    Read lines from standard input, and replace each word that names a page in FOLDER.  What stands behind it is the
    page's title, as SWISH++ prints it: with character references, which are decoded.
    """
    begin = f"{folder}/"
    for line in sys.stdin:
        words, named = [], False
        for word in line.rstrip("\n").split(" "):
            url = url_of(word.removeprefix(begin)) if word.startswith(begin) else None
            words.append(url or (html.unescape(word) if named else word))
            named = named or url is not None
        click.echo(clean(" ".join(words)))


COMMANDS = (swish_e, swish_plus_plus, htdig, omega, ndjson, mirror_urls)


def _command(words: tuple[str, ...], mode: str, more: dict[str, str] | None = None) -> Command:
    return Command(words, {"LCC_EXPORT": mode, **(more or {})})


def _consumer_for(options: dict[str, Any], output: Path | None) -> Callable[[str], Consumer]:
    words, state = options["consumer"], options["state"]
    if words and output is not None:
        raise click.UsageError("give either a command or --output")
    if words:
        return lambda mode: _command(words, mode)
    if output is not None:
        return lambda _: File(output, keep=state is not None)
    if state is not None:
        raise click.UsageError(
            "--since needs a command (after --) or --output: the success of a pipe's reader is unknown"
        )
    return lambda _: Output()


def _check_batches(batch_bytes: int | None, options: dict[str, Any]) -> None:
    if batch_bytes is not None and not options["consumer"]:
        raise click.UsageError("--batch-bytes is for a command")


def _run(source: Source, options: dict[str, Any], engine: Engine, form: dict[str, Any], name: str) -> None:
    path: Path | None = options["state"]
    fields = asked_fields(options)
    asked = Asked(fields, {"engine": name, **form}, options["rebuild"], options["wait"])
    try:
        state = State(path)
        try:
            with source.cache() as cache:
                outcome = export(cache, state, asked, engine)
        finally:
            state.close()
    except (StateError, OSError) as error:
        raise Failed(
            str(error), "free some space, or choose another state file with --since, and try again"
        ) from None
    tell_outcome(outcome, keeps=path is not None)


def tell_outcome(outcome: Outcome, keeps: bool) -> None:
    """Tell how it went, on standard error.

    :param keeps: what is missing is known next time.
    """
    if not outcome.told:
        click.echo("nothing has changed" if not outcome.full else "nothing to export", err=True)
    if outcome.held_over:
        later = "retried next time" if keeps else "left out"
        click.echo(f"{outcome.held_over} pages with unreadable content: {later}", err=True)
    if outcome.unread:
        # The URL is a stranger's.
        click.echo(clean(f"{number(outcome.unread, 'page')} without text; the first: {outcome.fault}"), err=True)
