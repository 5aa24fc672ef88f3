"""``lccwatch``: the command; :mod:`lcc.provider.watcher` does the work."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from lcc.commands.errors import Tool
from lcc.commands.examples import add_examples
from lcc.errors import ConfigError
from lcc.provider.command import BadInput, in_words, next_step, run
from lcc.provider.files import Describer
from lcc.provider.lcccp import given_password, uns_options
from lcc.provider.mimetable import MimeTable
from lcc.provider.statefile import StateBusy, StateFile
from lcc.provider.submitter import Orders


@click.command(cls=Tool)
@click.argument("folders", nargs=-1, required=True)
@uns_options
@click.option("--statefile", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The state file.")
@click.option("--mimetype", default="", help="Mime type of all files.")
@click.option(
    "--default-mimetype", default="", help="Mime type of files of unknown type; by default they are skipped."
)
@click.option(
    "--mime-types", multiple=True, type=click.Path(exists=True), help="A mime.types file that takes precedence."
)
@click.option("--index", default="", help="Name of index pages, such as index.html: their URL is that of the folder.")
@click.option("--no-mtime", is_flag=True, help="Omit modification times, so that touching a file is not a change.")
@click.option("--allow-mass-delete", is_flag=True, help="Allow deletion of more than half of the site.")
@click.option(
    "--compare-every", default=3600.0, type=click.FloatRange(1), help="Seconds between comparisons of all files."
)
@click.option("--show-errors", default=20, type=click.IntRange(0), help="Number of URL errors to print.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
@click.version_option(package_name="lcc", prog_name="lccwatch")
def command(
    folders: tuple[str, ...],
    uns: str,
    tls: bool,
    ca_file: Path | None,
    pid: int,
    pwd: str | None,
    pwd_file: Path | None,
    urlprefix: str,
    timeout: float,
    statefile: Path,
    mimetype: str,
    default_mimetype: str,
    mime_types: tuple[str, ...],
    index: str,
    no_mtime: bool,
    allow_mass_delete: bool,
    compare_every: float,
    show_errors: int,
    quiet: bool,
) -> None:
    """Watch FOLDERS, and tell an LCC which of their files are new, changed or deleted, within a second.

    FOLDER=PREFIX puts PREFIX before the names of its files: /srv/media=media/.

    It runs until it is stopped, and keeps its state in the state file of lcccpstate: what happens while it does not
    run is told when it starts again.
    """
    password = given_password(pwd, pwd_file)
    if not urlprefix or "://" not in urlprefix:
        raise click.UsageError("--urlprefix is required, such as http://site/")
    if ca_file is not None and not (tls or uns.startswith("tls:")):
        raise click.UsageError("--ca-file requires --tls")
    for name, value in (("--mimetype", mimetype), ("--default-mimetype", default_mimetype)):
        if value and "/" not in value:
            raise click.UsageError(f"{name}: {value} is not a mime type")
    try:
        table = MimeTable(mime_types, default_mimetype)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--mime-types: {error}") from None
    describer = Describer(table, mimetype, os.fsencode(index), not no_mtime)
    orders = Orders(uns, pid, password, urlprefix, timeout, 0, show_errors, quiet, tls, ca_file, program="lccwatch")
    state = StateFile(statefile)
    with ExitStack() as stack:
        try:
            stack.enter_context(state.locked())
        except (StateBusy, OSError) as fault:
            raise BadInput(in_words(fault), next_step(fault)) from None
        _run(orders, state, folders, describer, allow_mass_delete, compare_every)


def _run(
    orders: Orders,
    state: StateFile,
    named: tuple[str, ...],
    describer: Describer,
    allow_mass_delete: bool,
    compare_every: float,
) -> None:
    # Only now: this brings in much of Twisted, and a usage error should be quick.
    from twisted.internet.defer import CancelledError, Deferred
    from twisted.internet.threads import deferToThread

    from lcc.commands.boottime import react
    from lcc.provider.folders import absolute
    from lcc.provider.watcher import Folder, Watcher, same_name

    folders = []
    for text in named:
        path, equals, prefix = (text, "", "") if Path(text).is_dir() else text.rpartition("=")
        if not Path(path or text).is_dir():
            raise click.UsageError(f"{path or text} is not a folder")
        folders.append(Folder(absolute(path), prefix if equals else ""))
    twice = same_name([Path(os.fsdecode(folder.path)) for folder in folders])
    if twice:
        raise click.UsageError(f"{twice}: folders must not lie in each other")

    def watch(reactor: Any) -> Deferred[None]:
        watcher = Watcher(reactor, orders, state, folders, describer, deferToThread, allow_mass_delete, compare_every)
        running: Deferred[None] = Deferred.fromCoroutine(watcher.run())
        reactor.addSystemEventTrigger("before", "shutdown", running.cancel)
        running.addErrback(lambda failure: failure.trap(CancelledError) and None)
        return running

    try:
        react(watch, ())
    except (ValueError, ConfigError) as error:
        raise BadInput(f"--uns: {error}", "use HOST:PORT, such as lcc.example.org:9000") from None


add_examples(command, "lccwatch")


def main() -> None:
    """The console script."""
    run(command, "lccwatch")
