"""The content port of a BOT-M: content files over HTTP/1.1 (twisted.web).

``/MACHINE/FILE``
    The content file, both ids in decimal.  Of this machine: read from the disk, also in part (one ``Range``); a read
    that has begun ends well, also if the file is removed meanwhile.  Of a machine behind this (central) BOT-M: from
    where that machine's content is read, by a redirect (307) if that is an HTTP address, else through here.  With the
    query ``?relay=yes`` always through here: for clients that may reach no other machine.
``/MACHINE/FILE,STEP,STEP…``
    Some small files in one answer, from where ``/MACHINE/FILE`` would be (:mod:`lcc.model.content_batches`,
    :mod:`lcc.protocols.content_batch`); for LCCs that a provider moves to.
``/status``
    What this BOT-M holds that no row of the database needs to know yet; for ``lcc-admin fsck``.

A content file never changes, so its entity tag is its name.  404: the file's id was never given out; 410: there is no
such file any longer, or a crash of the machine has damaged it; 421: this is another machine; 503: the machine is not
connected here, or it is not known yet whether a crash of it has damaged the file.  A client that takes nothing for
too long is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from twisted.internet.interfaces import IConsumer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request
from zope.interface import implementer

from lcc.domain.preconditions import PRECONDITION_FAILED, precondition
from lcc.domain.ranges import requested_range
from lcc.interfaces import IContentFolder, IContentReader
from lcc.model.content_batches import read_names
from lcc.numbers import parse_number
from lcc.protocols.content_batch import CONTENT_TYPE
from lcc.roles.botm.content_batches import batch_pieces
from lcc.roles.botm.content_sender import PIECE_BYTES, PieceSender, abort, is_over
from lcc.transport.http.client import UNIX, Answer, HttpClient, HttpFailed, Watch
from lcc.transport.http.server import GuardedSite, list_header, text_header
from lcc.transport.ports.limited import LimitedFactory

_log = Logger()

_PATH = re.compile(rb"/([0-9]{1,10})/([0-9]{1,19}(?:,[0-9]{1,19}){0,99})", re.ASCII)
_NUMBER_MAX = 10**19
_RELAY = b"relay"
_PASSED_DOWN = ("Range", "If-Range", "If-Match", "If-None-Match")
_PASSED_UP = ("Content-Length", "Content-Range", "Content-Type", "ETag", "Accept-Ranges", "Retry-After")
RETRY_AFTER_SECONDS = 5


class Local(Protocol):
    """The BOT-M of this machine, as its content port needs it."""

    @property
    def machine(self) -> int:
        """Its id."""

    def is_suspect(self, file_id: int) -> bool:
        """A crash of the machine may have damaged this file; it is being verified."""

    def is_damaged(self, file_id: int) -> bool:
        """A crash of the machine has damaged this file."""

    def status(self) -> dict[str, Any]:
        """What it holds."""


class ContentPort(Resource):
    """Serves content files over HTTP: those of this machine, and those of machines below by redirect or relay.

    :param content: the content of this machine; None: this BOT-M has none of its own.
    :param local: the BOT-M of this machine; None as before.
    :param address_of: where the content of another machine is read; empty: that is not known.
    :param http: asks other BOT-Ms.
    :param stall_seconds: a client that takes nothing for so long is dropped.
    """

    isLeaf = True

    def __init__(
        self,
        content: IContentFolder | None,
        local: Local | None,
        address_of: Callable[[int], str],
        http: HttpClient,
        clock: IReactorTime,
        stall_seconds: float,
    ) -> None:
        super().__init__()
        self._content = content
        self._local = local
        self._address_of = address_of
        self._http = http
        self._clock = clock
        self._stall_seconds = stall_seconds

    def render(self, request: Request) -> int | bytes:
        """Answer a request."""
        request.setHeader("Server", "LCC")
        request.setHeader("Content-Type", "text/plain; charset=us-ascii")
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader("Allow", "GET, HEAD")
            return _say(request, 405, "only GET and HEAD")
        if request.path == b"/status":
            return self._status(request)
        match = _PATH.fullmatch(request.path)
        if match is None:
            return _say(request, 404, "content files are /MACHINE/FILE")
        machine, names = parse_number(match[1].decode(), _NUMBER_MAX), match[2].decode()
        try:
            files = read_names(names)
        except ValueError as error:
            return _say(request, 400, f"not the files of a batch: {error}")
        if self._local is not None and self._content is not None and machine == self._local.machine:
            if len(files) > 1:
                return self._batch(request, self._local, self._content, files)
            return self._own(request, self._local, self._content, files[0])
        address = self._address_of(machine)
        if not address and self._local is not None:
            return _say(request, 421, f"this is machine {self._local.machine}, not {machine}")
        if not address:
            request.setHeader("Retry-After", str(RETRY_AFTER_SECONDS))
            return _say(request, 503, f"machine {machine} is not connected, or its content is read there only")
        relayed = _RELAY in request.args
        if address.startswith(UNIX) or relayed:
            if text_header(request, "Via") is not None:  # it has come through a BOT-M: not in circles
                return _say(request, 502, "loop: that machine does not recognise its own number")
            return self._through(request, address, f"/{machine}/{names}")
        request.setHeader("Location", f"{address}/{machine}/{names}")
        return _say(request, 307, "there")

    def _status(self, request: Request) -> bytes:
        if self._local is None:
            return _say(request, 404, "this BOT-M has no content of its own")
        request.setHeader("Content-Type", "application/json")
        return json.dumps(self._local.status()).encode()

    def _own(self, request: Request, local: Local, content: IContentFolder, file_id: int) -> int | bytes:
        if local.is_suspect(file_id):
            request.setHeader("Retry-After", str(RETRY_AFTER_SECONDS))
            return _say(request, 503, "the file is being verified after a crash of the machine")
        if local.is_damaged(file_id):
            return _say(request, 410, "a crash of the machine has damaged this file")
        try:
            reader = content.read(file_id)
        except (FileNotFoundError, NotADirectoryError):
            if 0 < file_id < content.names_upto:
                return _say(request, 410, "this file was removed")
            return _say(request, 404, "no such file")
        except OSError as error:
            _log.error("Cannot read content file {file}: {error}", file=file_id, error=str(error))
            return _say(request, 500, "the file cannot be read")
        etag = f'"{local.machine}-{file_id}"'
        request.setHeader("ETag", etag)
        ended = precondition(
            etag,
            None,
            if_match=list_header(request, "If-Match"),
            if_none_match=list_header(request, "If-None-Match"),
            if_modified_since=None,
            if_unmodified_since=None,
        )
        if ended:
            reader.close()
            if ended == PRECONDITION_FAILED:
                return _say(request, ended, "the file is another one")
            request.setResponseCode(ended)
            return b""
        condition = text_header(request, "If-Range")
        wanted = text_header(request, "Range") if condition in (None, etag) else None
        part = requested_range(wanted, reader.size_bytes)
        request.setHeader("Accept-Ranges", "bytes")
        if part is None:
            size = reader.size_bytes
            reader.close()
            request.setHeader("Content-Range", f"bytes */{size}")
            return _say(request, 416, "the file is shorter")
        first, length = part
        if length != reader.size_bytes:
            request.setResponseCode(206)
            request.setHeader("Content-Range", f"bytes {first}-{first + length - 1}/{reader.size_bytes}")
        request.setHeader("Content-Type", "application/octet-stream")
        request.setHeader("Content-Length", str(length))
        if request.method == b"HEAD" or not length:
            reader.close()
            request.finish()
        else:
            watch = Watch(self._clock, self._stall_seconds)
            PieceSender(request, _part(reader, first, length, file_id), watch, reader.close).start()
        return NOT_DONE_YET

    def _batch(self, request: Request, local: Local, content: IContentFolder, files: Sequence[int]) -> int | bytes:
        if request.method == b"HEAD":
            return _say(request, 405, "only GET")
        watch = Watch(self._clock, self._stall_seconds)
        request.setHeader("Content-Type", CONTENT_TYPE)
        PieceSender(request, batch_pieces(content, local.is_suspect, local.is_damaged, files), watch).start()
        return NOT_DONE_YET

    def _through(self, request: Request, address: str, path: str) -> int:
        headers = {name: value for name in _PASSED_DOWN if (value := list_header(request, name)) is not None}
        asked = self._http.get(address, path, {"Via": "1.1 lcc", **headers})
        state: list[Answer | None] = [None]

        def lost(_: Failure) -> None:
            asked.cancel()

        request.notifyFinish().addErrback(lost)

        def answered(answer: Answer) -> Any:
            state[0] = answer
            request.setResponseCode(answer.status)
            for name in _PASSED_UP:
                value = answer.header(name)
                if value is not None:
                    request.setHeader(name, value)
            if request.method == b"HEAD":
                answer.drop()
                return None
            return answer.pipe_to(_Client(request, Watch(self._clock, self._stall_seconds)))

        def failed(failure: Failure) -> None:
            if is_over(request):
                return  # nobody waits for it any longer
            failure.trap(HttpFailed)
            _log.warn("Cannot relay content: {error}", error=failure.getErrorMessage())
            if state[0] is not None:
                # What was promised cannot be kept: only a connection that breaks says so.
                abort(request)
                return
            request.write(_say(request, 502, "the BOT-M of that machine is unreachable"))
            request.finish()

        asked.addCallback(answered)
        asked.addCallbacks(lambda _: request.finish(), failed)
        asked.addErrback(lambda failure: _log.failure("Cannot relay content", failure=failure))
        return NOT_DONE_YET


def _say(request: Request, status: int, text: str) -> bytes:
    request.setResponseCode(status)
    return f"{text}\n".encode("ascii")


@implementer(IConsumer)
class _Client:
    """A request as the consumer of a body; the client may disconnect, or stop reading."""

    def __init__(self, request: Request, watch: Watch) -> None:
        self._request = request
        self._watch = watch

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._watch.start(lambda: abort(self._request))
        self._request.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self._watch.stop()
        if not is_over(self._request):
            self._request.unregisterProducer()

    def write(self, data: bytes) -> None:
        self._watch.moved()
        self._request.write(data)


def _part(reader: IContentReader, first: int, length: int, file_id: int) -> Iterator[bytes]:
    while length:
        try:
            piece = reader.read(first, min(PIECE_BYTES, length))
        except OSError as error:
            raise OSError(f"file {file_id}: {error}") from None
        if not piece:
            raise OSError(f"file {file_id} is shorter than it was")
        first += len(piece)
        length -= len(piece)
        yield piece


def content_factory(
    port: ContentPort,
    clock: IReactorTime,
    connections_max: int,
    idle_timeout_seconds: float,
    connections_per_address: int = 0,
    now: Callable[[], float] | None = None,
) -> LimitedFactory:
    """The factory for the content port.

    :param now: seconds since 1970, for the dates of answers; None: as the machine has them.
    """
    site = GuardedSite(port, timeout=idle_timeout_seconds, reactor=clock, now=now)
    return LimitedFactory(site, connections_max, "connections to the content port", connections_per_address)
