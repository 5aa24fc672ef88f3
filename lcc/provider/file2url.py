"""``file2url``: writes a ``<url>`` container for each file of a site.

*Owns* nothing; reads files only.

*Strategy.*  The files are those that ``find`` finds (``--find``), or those named as arguments or on standard input.
Each is read once, for its md5 and length.  An end mark says that all were told.

*Failures.*  A file that is gone by the time it is read is skipped with a note: it *is* deleted.  One that is named
as an argument and is not there is a slip of the pen: exit code 1, no output.  A file or folder that are unreadable is
an error: the others are still told, but there is no end mark (a page that is there must not look deleted) and the
exit code is 1.  A file whose mime type nobody knows is skipped with a note.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

import click

from lcc.commands.errors import Tool
from lcc.commands.examples import add_examples
from lcc.commands.progress import counting
from lcc.model.shellwords import shell_word
from lcc.provider.command import BadInput, Fault, Notes, in_words, next_step, printable, run, standard_input
from lcc.provider.files import Describer, Listed, ListingFault, Skipped, found, split_names, under_docroot
from lcc.provider.mimetable import MimeTable
from lcc.provider.stream_format import Header, StreamWriter

_FIND_KEY = "lcc.find"


class _FindCommand(Tool):
    """All that follows ``--find DOCROOT`` belongs to find, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for index, argument in enumerate(args):
            if argument == "--find":
                if index + 1 == len(args):
                    raise click.UsageError("--find needs DOCROOT", ctx)
                ctx.meta[_FIND_KEY] = args[index + 1 :]
                args = args[:index]
                break
            if argument.startswith("--find="):
                ctx.meta[_FIND_KEY] = [argument.removeprefix("--find="), *args[index + 1 :]]
                args = args[:index]
                break
            if argument == "--":
                break
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] --find DOCROOT [FIND-ARGUMENTS]...")
        formatter.write_usage(ctx.command_path, "[OPTIONS] [FILES]...      (without FILES: read names from stdin)")


@click.command(cls=_FindCommand)
@click.option(
    "--docroot", type=click.Path(exists=True, file_okay=False), help="Folder that file names are relative to."
)
@click.option("-0", "--null", is_flag=True, help="Names on standard input end with NUL instead of newline.")
@click.option("--mimetype", default="", help="Mime type of all files.")
@click.option(
    "--default-mimetype", default="", help="Mime type of files of unknown type; by default they are skipped."
)
@click.option(
    "--mime-types", multiple=True, type=click.Path(exists=True), help="A mime.types file that takes precedence."
)
@click.option("--index", default="", help="Name of index pages, such as index.html: their URL is that of the folder.")
@click.option("--no-mtime", is_flag=True, help="Omit modification times, so that touching a file is not a change.")
@click.option("--quiet", "-q", is_flag=True, help="Do not report skipped files.")
@click.version_option(package_name="lcc", prog_name="file2url")
@click.argument("files", nargs=-1)
@click.pass_context
def command(
    ctx: click.Context,
    docroot: str | None,
    null: bool,
    mimetype: str,
    default_mimetype: str,
    mime_types: tuple[str, ...],
    index: str,
    no_mtime: bool,
    quiet: bool,
    files: tuple[str, ...],
) -> None:
    """Write a <url> container for each file: its URL relative to the docroot, mime type, md5, length and
    modification time.

    With --find, find(1) lists the files in DOCROOT; arguments after DOCROOT are passed to find, so options of
    file2url come first. Otherwise files are given as arguments or on standard input, relative to --docroot or the
    current folder.
    """
    find = ctx.meta.get(_FIND_KEY)
    if find is not None and (files or docroot is not None or null):
        raise click.UsageError("--find cannot be combined with FILES, --docroot or -0")
    for name, value in (("--mimetype", mimetype), ("--default-mimetype", default_mimetype)):
        if value and "/" not in value:
            raise click.UsageError(f"{name}: {value} is not a mime type")
    try:
        table = MimeTable(mime_types, default_mimetype)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--mime-types: {error}") from None
    describer = Describer(table, mimetype, os.fsencode(index), not no_mtime)
    if find is not None:
        listing = found(os.fsencode(find[0]), [os.fsencode(argument) for argument in find[1:]])
    else:
        _must_be_files(files, docroot or "")
        names: Iterable[bytes] = map(os.fsencode, files)
        if not files:
            names = split_names(standard_input(BadInput, "reading file names"), b"\0" if null else b"\n")
        listing = under_docroot(names, os.fsencode(docroot or ""))
    _write(listing, describer, Notes("file2url", quiet=quiet), Notes("file2url"))


def _must_be_files(files: tuple[str, ...], docroot: str) -> None:
    """A name that a person types is a file; only lists on standard input may be older than the site, and hold folders
    as ``find`` writes them."""
    for name in files:
        path = os.path.join(docroot, name)  # noqa: PTH118
        if os.path.isdir(path):  # noqa: PTH112
            raise BadInput(
                f"{printable(name)} is a folder",
                f"use file2url --find {shell_word(path)} for all files in it",
            )
    missing = [name for name in files if not os.path.lexists(os.path.join(docroot, name))]  # noqa: PTH118
    if missing:
        more = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
        raise Fault(
            f"{printable(missing[0])} does not exist{more}; the stream has no end mark",
            "give existing files, relative to --docroot; lcccpstate detects deletions by itself",
        )


def _write(listing: Iterator[Listed], describer: Describer, notes: Notes, errors: Notes) -> None:
    sink = StreamWriter(sys.stdout.buffer, Header("file2url"))
    try:
        for file in counting("reading files", listing):
            try:
                sink.write(describer.describe(file))
            except Skipped as skipped:
                if skipped.kind != "folder":  # "find . | file2url" names them, too
                    notes.add(skipped.kind, str(skipped))
            except BrokenPipeError:
                raise
            except OSError as error:
                errors.add("unreadable", f"{os.fsdecode(file.path)}: {error.strerror}")
    except ListingFault as fault:
        sink.flush()
        raise Fault(f"{in_words(fault)}; the stream has no end mark", next_step(fault)) from None
    notes.finish(
        untyped="of unknown type (use --default-mimetype to include them)",
        vanished="that no longer exist",
    )
    errors.finish(unreadable="that are unreadable")
    if errors.counts:
        sink.flush()
        raise Fault(
            f"{errors.counts['unreadable']:,} files are unreadable; the stream has no end mark",
            "make them readable by this user, or leave them out; omitted files count as deleted",
        )
    sink.close()


add_examples(command, "file2url")


def main() -> None:
    """The console script."""
    run(command, "file2url")
