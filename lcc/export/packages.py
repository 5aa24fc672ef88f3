"""``lcc-export tar``, ``tar.gz``, ``warc``, ``wacz``: rows of the cache with their content as one file."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import click

from lcc.commands.errors import Failed
from lcc.commands.progress import progress
from lcc.export.endmark import EndMark, NotComplete
from lcc.export.files import replacing
from lcc.export.source import Source, Unreachable, pass_source
from lcc.export.wacz import write_wacz
from lcc.protocols.cdxj import write_index
from lcc.roles.cu.query_options import asked_fields, query_options

Fields = dict[str, str | list[str]]
Write = Callable[[Iterator[bytes], BinaryIO, Path], None]


class Incomplete(Failed):
    """The package was written, but lacks the content of some rows."""

    exit_code = 5


_output = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    required=True,
    help="Output file, written completely or not at all (-: standard output, as it comes).",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object with its statistics.")


def _command(name: str, text: str) -> Callable[[Callable[..., None]], click.Command]:
    def decorate(function: Callable[..., None]) -> click.Command:
        command = click.command(
            name, help=text, epilog="Exit code 5: the file was written, but lacks the content of some rows."
        )
        return command(_output(query_options()(_json(pass_source(function)))))

    return decorate


@_command("tar", "Write a tar file; with --since, only changes.")
def tar_command(source: Source, /, output: Path, as_json: bool, **options: Any) -> None:
    _export(source, "tar", output, as_json, asked_fields(options))


@_command("tar.gz", "Write a tar.gz file; with --since, only changes.")
def tar_gz_command(source: Source, /, output: Path, as_json: bool, **options: Any) -> None:
    _export(source, "tar.gz", output, as_json, asked_fields(options))


@click.option("--no-index", is_flag=True, help="Write no CDXJ index.")
def _warc(source: Source, /, output: Path, as_json: bool, no_index: bool, **options: Any) -> None:
    fields = asked_fields(options)
    if str(output) == "-" or no_index:
        _export(source, "warc.gz", output, as_json, fields)
        return
    _need_index("install lcc[warc], or use --no-index")

    def write(pieces: Iterator[bytes], file: BinaryIO, folder: Path) -> None:
        file.writelines(pieces)
        file.seek(0)
        with replacing(_index_of(output)) as index:
            write_index(file, output.name, index, folder)

    _export(source, "warc.gz", output, as_json, fields, write)


warc_command = _command(
    "warc",
    "Write a WARC 1.1 file (gzip) and its CDXJ index.",
)(_warc)


@click.option("--title", default="Pages of a Local Content Cache", show_default=True, help="Title of the archive.")
def _wacz(source: Source, /, output: Path, as_json: bool, title: str, **options: Any) -> None:
    _need_index("install lcc[warc]")

    def write(pieces: Iterator[bytes], file: BinaryIO, folder: Path) -> None:
        write_wacz(pieces, file, folder, title, datetime.now(UTC))

    _export(source, "warc.gz", output, as_json, asked_fields(options), write)


wacz_command = _command(
    "wacz",
    "Write a WACZ file, which ReplayWeb.page opens: a WARC 1.1 file, its index and a list of pages.",
)(_wacz)


def _need_index(next_step: str) -> None:
    if find_spec("warcio") is None or find_spec("surt") is None:
        raise Failed("the index needs warcio and surt", next_step)


def _as_it_comes(pieces: Iterator[bytes], file: BinaryIO, folder: Path) -> None:
    file.writelines(pieces)


def _export(
    source: Source, kind: str, output: Path, as_json: bool, fields: Fields, write: Write = _as_it_comes
) -> None:
    """
    :param write: makes the file of the package: ``write(pieces, file, temporary)``.
    """
    mark = EndMark(kind.endswith(".gz"))
    to_stdout = str(output) == "-"
    try:
        with closing(_received(source, kind, fields, mark)) as pieces:
            if to_stdout:
                write(pieces, sys.stdout.buffer, Path(tempfile.gettempdir()))
                sys.stdout.buffer.flush()
            else:
                with replacing(output) as file:
                    write(pieces, file, output.parent)
        end = mark.read()
    except NotComplete as error:
        raise Unreachable(str(error), "run the same command again") from None
    except OSError as error:
        raise Failed(f"{output}: {error.strerror or error}", "name another file with --output") from None
    _tell(end, as_json, err=to_stdout)
    if end["missing"]:
        raise Incomplete(
            f"{end['missing']} contents are missing; the package lists them with reasons",
            "run the same command again when the machines that store them are back",
        )


def _received(source: Source, kind: str, fields: Fields, mark: EndMark) -> Generator[bytes, None, None]:
    """
    :raises NotComplete: (after the last piece, too) it lacks its end mark.
    """
    with source.cache() as cache, progress("receiving", in_bytes=True) as more:
        for piece in cache.package(kind, **fields).pieces():
            mark.take(piece)
            yield piece
            more(len(piece))
    mark.read()


def _index_of(warc: Path) -> Path:
    """``x.cdxj`` for ``x.warc.gz``."""
    name = warc.name.removesuffix(".gz").removesuffix(".warc")
    return warc.with_name(f"{name}.cdxj")


def _tell(end: dict[str, Any], as_json: bool, err: bool) -> None:
    if as_json:
        click.echo(json.dumps(end), err=err)
        return
    click.echo(f"{end['files']} contents, {end['deleted']} deleted", err=err)
    if end["next"] is not None:
        click.echo(f"next: {end['next']}", err=err)


COMMANDS = (tar_command, tar_gz_command, warc_command, wacz_command)
