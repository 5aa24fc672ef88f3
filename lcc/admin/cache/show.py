"""``lcc-admin show``: a row of the cache, and its content."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
from twisted.internet.interfaces import IConsumer
from zope.interface import implementer

from lcc.admin.context import Admin, pass_admin
from lcc.admin.values import PID
from lcc.client.content import ContentClient, ContentGone, ContentUnavailable
from lcc.commands.boottime import react
from lcc.commands.errors import Failed
from lcc.commands.watch import clean
from lcc.config import Config, content_source
from lcc.domain.keys import url_key
from lcc.domain.mimetypes import normalise_mimetype
from lcc.domain.urls import normalise
from lcc.domain.wording import utc
from lcc.errors import UrlError
from lcc.insight.records import user_record
from lcc.model import CachedUrl
from lcc.model.shellwords import shell_command
from lcc.storage.database.transactions import Txn
from lcc.storage.views.inspect import owners
from lcc.storage.views.selected import views
from lcc.transport.wires import certificate_files

_TIMES = frozenset(["mtime", "fetched_time", "confirmed_time"])


@click.command("show")
@click.argument("url")
@click.option("--provider", "pid", type=PID, help="Of this provider.")
@click.option("--mimetype", help="Of this mime type.")
@click.option(
    "-o", "--output", type=click.Path(allow_dash=True), help="Write the content to this file (-: standard output)."
)
@click.option("--rows-only", is_flag=True, help="Rows without content.")
@click.option("--json", "as_json", is_flag=True, help="Print the row as a JSON object, with the response headers.")
@pass_admin
def show_command(
    admin: Admin, url: str, pid: int | None, mimetype: str | None, output: str | None, rows_only: bool, as_json: bool
) -> None:
    """Show the cached row and content of a URL.

    URL is the conceptual URL.  Binary content is not written to a terminal; use --output.
    """
    row = _choose(admin, url, pid, mimetype)
    to_stdout = output == "-"
    record = user_record(row) | {"status": row.status, "etag": row.etag, "headers": _headers(row.headers)}
    _print_row(record, as_json, err=to_stdout)
    if rows_only:
        return
    if row.fetched_fileid is None or row.fetched_machineid is None:
        raise Failed("it has no content", f"{shell_command('lcc-admin', 'why', row.curl)} shows what it waits for")
    if output is None and (as_json or (sys.stdout.isatty() and not row.mimetype.startswith("text/"))):
        return
    port = content_source(admin.config, admin.config.cu.content)
    if output is None or to_stdout:
        if output is None:
            click.echo()
        _copy(admin.config, port, row.fetched_machineid, row.fetched_fileid, sys.stdout.buffer)
        return
    try:
        with Path(output).open("wb") as file:
            _copy(admin.config, port, row.fetched_machineid, row.fetched_fileid, file)
    except OSError as error:
        raise Failed(f"{output}: {error.strerror or error}", "give another file with --output") from None


def _choose(admin: Admin, url: str, pid: int | None, mimetype: str | None) -> CachedUrl:
    try:
        name = normalise(url)
        wanted = None if mimetype is None else normalise_mimetype(mimetype)
    except UrlError as error:
        raise click.BadParameter(str(error)) from None
    with admin.database() as database:
        found = [row for row in database.interact(_cached, name, pid) if wanted in (None, row.mimetype)]
    if not found:
        raise Failed(f"{name} is not in the cache", f"{shell_command('lcc-admin', 'why', name)} tells more")
    if len(found) > 1:
        choices = ", ".join(shell_command("--provider", row.pid, "--mimetype", row.mimetype) for row in found)
        raise Failed("it is cached more than once", f"choose one of: {choices}")
    return found[0]


def _cached(txn: Txn, name: str, pid: int | None) -> list[CachedUrl]:
    pids = [owner.pid for owner in owners(txn, name)] if pid is None else [pid]
    return [row for each in pids for row in views(txn, url_key(each, name, "")) if row.curl == name]


def _headers(text: str) -> list[list[str]]:
    """The response headers as name and value."""
    flat = json.loads(text) if text else []
    return [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]


def _print_row(record: dict[str, Any], as_json: bool, err: bool) -> None:
    if as_json:
        click.echo(json.dumps(record), err=err)
        return
    headers = record.pop("headers")
    for name, value in record.items():
        if value is not None and value != "":
            text = f"{utc(value)} UTC" if name in _TIMES else value
            click.echo(clean(f"{name + ':':19}{text}"), err=err)
    for name, value in headers:
        click.echo(clean(f"{'header:':19}{name}: {value}"), err=err)


@implementer(IConsumer)
class _ToFile:
    """Takes a body and writes it; the first write that fails ends it.

    :ivar error: of that write.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._producer: Any = None
        self.error: OSError | None = None

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def write(self, data: bytes) -> None:
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
                self._producer.stopProducing()


def _copy(config: Config, port: str, machine: int, file_id: int, file: BinaryIO) -> None:
    """
    :raises Failed: the content cannot be read.
    :raises OSError: it cannot be written.
    """
    sink = _ToFile(file)
    failed: list[str] = []

    async def copy(reactor: Any) -> None:
        client = ContentClient(reactor, port, certificates=certificate_files(config, "admin"))
        try:
            content = await client.open(machine, file_id)
            await content.pipe_to(sink)
        except (ContentGone, ContentUnavailable) as error:
            if sink.error is None:
                failed.append(
                    f"cannot read its content from machine {machine} through {port} ([cu] content): {error}"
                )
        finally:
            await client.close()

    try:
        react(copy)
    except SystemExit as ended:
        if ended.code:
            raise
    if failed:
        raise Failed(failed[0], "check that the BOT-M of that machine runs (lcc-admin status), and [cu] content")
    if sink.error is not None:
        raise sink.error
    file.flush()
