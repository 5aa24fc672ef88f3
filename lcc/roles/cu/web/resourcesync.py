"""``/.well-known/resourcesync`` and ``/resourcesync``: the cache as a source (:mod:`lcc.roles.cu.resourcesync`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.answers import Reads
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.resourcesync import (
    CAPABILITIES,
    CHANGES,
    CHANGES_EACH,
    MEDIA_TYPE,
    PARTS_MAX,
    PROVIDERS_MAX,
    RESOURCES,
    RESOURCES_EACH,
    Piece,
    Source,
    capability_list,
    change_list,
    change_part,
    description,
    resource_list,
    resource_part,
)
from lcc.roles.cu.web.replies import Asked
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import provider_ids
from lcc.transport.http_replies import HttpError
from lcc.transport.http_server import text_header
from lcc.transport.http_streaming import HttpWriter

_PID_MAX = 2**31 - 1
_PARTS = {
    RESOURCES: re.compile(rb"([0-9]{1,19})-([0-9]{1,6})-([0-9]{1,6})\.xml").fullmatch,
    CHANGES: re.compile(rb"([0-9]{1,19})-([0-9]{1,19})\.xml").fullmatch,
}
_is_host = re.compile(
    r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?", re.ASCII
).fullmatch

Begin = Callable[[Txn], Piece]


class _Document(Asked):
    """
    :param stall_seconds: who takes nothing for so long is dropped.
    :param url: of this server; empty: as the request says.
    """

    def __init__(
        self, cache: Cache, authenticator: Authenticator, clock: IReactorTime, stall_seconds: float, url: str
    ) -> None:
        super().__init__(cache, authenticator)
        self._clock = clock
        self._stall = stall_seconds
        self._url = url and f"{url.rstrip('/')}/"

    async def begin(self, request: Request, access: Access, url: str) -> tuple[Reads, Begin]:
        """What begins the document that is asked for, and where.

        :raises HttpError: there is none.
        """
        raise NotImplementedError

    async def answer(self, request: Request, access: Access) -> None:
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        home, begin = await self.begin(request, access, self._url or own_url(request))
        piece = await home.interact(begin)
        request.setHeader("content-type", MEDIA_TYPE)
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-content-type-options", "nosniff")
        if request.method == b"HEAD":
            request.finish()
            return
        writer = HttpWriter(request, self._clock, self._stall)
        writer.write(piece.data)
        while piece.after is not None:
            await writer.room()
            piece = await home.interact(piece.after)
            writer.write(piece.data)
        writer.finish()


class Description(_Document):
    """``GET /.well-known/resourcesync``: the source description."""

    async def begin(self, request: Request, access: Access, url: str) -> tuple[Reads, Begin]:
        homes = await self.cache.homes()
        pids: list[int] = []
        for home in homes[1:]:
            pids += await home.interact(provider_ids, access.providers, PROVIDERS_MAX)

        def begin(txn: Txn) -> Piece:
            found = sorted({*pids, *provider_ids(txn, access.providers, PROVIDERS_MAX)})
            return Piece(description(url, found[:PROVIDERS_MAX]))

        return homes[0], begin


class Lists(_Document):
    """``GET /resourcesync/PROVIDER/…``: the lists of a provider.

    :ivar resources_each, changes_each: rows, or change numbers, of a part.
    """

    takes_path = True
    resources_each = RESOURCES_EACH
    changes_each = CHANGES_EACH

    async def begin(self, request: Request, access: Access, url: str) -> tuple[Reads, Begin]:
        path: list[bytes] = list(request.postpath or ())
        try:
            pid = parse_number(path[0].decode("ascii", "replace") if path else "", _PID_MAX, 1)
            make = self._document(Source(url, pid), path[1:])
        except (ValueError, IndexError):
            raise HttpError(404, "there is nothing here; /.well-known/resourcesync tells what there is") from None
        if not access.sees(pid):
            raise HttpError(404, "there is no such provider")

        def begin(txn: Txn) -> Piece:
            if not provider_ids(txn, frozenset([pid]), 1):
                raise HttpError(404, "there is no such provider")
            return make(txn)

        return await self.cache.home(pid), begin

    def _document(self, source: Source, path: list[bytes]) -> Begin:
        """
        :raises ValueError, IndexError: there is none of this name.
        """
        if len(path) == 1:
            whole: dict[bytes, Begin] = {
                f"{CAPABILITIES}.xml".encode(): lambda _: Piece(capability_list(source)),
                f"{RESOURCES}.xml".encode(): lambda txn: resource_list(txn, source, self.resources_each),
                f"{CHANGES}.xml".encode(): lambda txn: change_list(txn, source, self.changes_each),
            }
            if path[0] not in whole:
                raise ValueError("there is no such list")
            return whole[path[0]]
        folder, name = path
        match = _PARTS.get(folder.decode("ascii", "replace"), lambda _: None)(name)
        if match is None:
            raise ValueError("there is no such part")
        numbers = [parse_number(text.decode(), INT64_MAX) for text in match.groups()]
        if folder == CHANGES.encode():
            first, last = numbers
            if not first <= last <= first + CHANGES_EACH:
                raise ValueError("no part of a change list")
            return lambda txn: change_part(txn, source, first, last)
        at, count, part = numbers
        if not part < count <= PARTS_MAX:
            raise ValueError("no part of a resource list")
        return lambda txn: resource_part(txn, source, at, count, part)


def own_url(request: Any) -> str:
    """The URL of this server, as the request says.

    :raises HttpError: it does not.
    """
    host = text_header(request, "host") or ""
    if not _is_host(host):
        raise HttpError(400, "the request has no Host that can be part of a URL")
    return f"{'https' if request.isSecure() else 'http'}://{host.lower()}/"
