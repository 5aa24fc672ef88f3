"""ht://Dig: a list of URLs, and the pages when it asks for them.

It knows a page by its URL, without fragment, and takes one of the same date for unchanged.  Its
``external_protocols`` call ``lcc-htdig`` instead of the network, and that asks here, over a socket that there is as
long as the consumer runs.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Mapping
from email.utils import formatdate
from subprocess import Popen
from typing import IO, Any
from urllib.parse import urlsplit

from lcc.export.consumers import Command
from lcc.export.htdig_handler import SOCKET_VARIABLE
from lcc.export.leftovers import temporary_folder
from lcc.export.pages import Page
from lcc.export.run import Job

LOOK_SECONDS = 0.1
"""How soon the end of the consumer is noticed."""
PATIENCE_SECONDS = 60.0
"""For a handler that asks or listens too slowly."""
URL_BYTES_MAX = 1 << 16
_NOT_FOUND = b"s\t404\nr\tNot Found\n\n"
_NOT_NOW = b"s\t503\nr\tService Unavailable\n\n"


class HtDig:
    """Tells the consumer which URLs to look at, and answers what it asks.

    The consumer reads the URLs, those of changed and those of deleted pages, from its standard input.

    :param command_for: gives the consumer for a mode and further environment variables.
    :param all_types: also what is no text.
    """

    dated = True

    def __init__(self, command_for: Callable[[str, dict[str, str]], Command], all_types: bool = False) -> None:
        self._command_for = command_for
        self.all_types = all_types

    def name_of(self, row: Mapping[str, Any]) -> str:
        return _name(str(row["curl"]))

    def wants(self, row: Mapping[str, Any]) -> bool:
        return self.all_types or Page.of(row).kind != "other"

    def hand_over(self, job: Job) -> None:
        with (
            temporary_folder("lcc-htdig-") as folder,
            tempfile.TemporaryFile() as urls,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            for name in job.state.pending():
                if not job.full or job.state.shown(name) is not None:
                    urls.write(f"{name}\n".encode())
            urls.seek(0)
            address = str(folder / "s")
            listener.bind(address)
            listener.listen(64)
            listener.settimeout(LOOK_SECONDS)
            command = self._command_for(job.mode, {SOCKET_VARIABLE: address})
            try:
                self._serve(job, listener, command.start(urls))
                command.close()
            except BaseException:
                command.abort()
                raise

    def _serve(self, job: Job, listener: socket.socket, process: Popen[bytes]) -> None:
        while process.poll() is None:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(PATIENCE_SECONDS)
                url = ""
                try:
                    with connection.makefile("rb") as asked:
                        url = asked.readline(URL_BYTES_MAX).decode("utf-8", "replace").strip()
                    self._answer(job, url, connection)
                except OSError:
                    # The handler is gone, or the disk is full: htdig does not have it, so it is told again.
                    name = _name(url)
                    if job.state.shown(name) is not None:
                        job.contents.held_over.add(name)

    def _answer(self, job: Job, url: str, connection: socket.socket) -> None:
        name = _name(url)
        page = job.state.shown(name)
        # It is asked for by htdig, and is about robots: nobody's here.
        if page is None or urlsplit(url).path == "/robots.txt":
            connection.sendall(_NOT_FOUND)
            return
        with job.contents.document(name, page) as document:
            if document is None:
                connection.sendall(_NOT_NOW if name in job.contents.held_over else _NOT_FOUND)
                return
            with document.converted() as (file, size_bytes):
                connection.sendall(_head(url, page, size_bytes, job.state.stamped(name)))
                _send(file, connection)


def _name(url: str) -> str:
    return url.partition("#")[0]


def _head(url: str, page: Page, size_bytes: int, mtime: int | None) -> bytes:
    lines = ["s\t200", "r\tOK", f"t\t{page.mimetype}", f"l\t{size_bytes}", f"u\t{url}"]
    if mtime is not None:
        lines.append(f"m\t{formatdate(mtime, usegmt=True)}")
    return "\n".join([*lines, "", ""]).encode()


def _send(file: IO[bytes], connection: socket.socket) -> None:
    while piece := file.read(1 << 16):
        connection.sendall(piece)
