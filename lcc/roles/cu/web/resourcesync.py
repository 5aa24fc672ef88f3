"""``/.well-known/resourcesync`` and ``/resourcesync``: the cache as a source (:mod:`lcc.roles.cu.resourcesync`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from lcc.errors import StoreUnavailable
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
from lcc.storage.database.tables.status import database_epoch
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import provider_ids
from lcc.storage.views.moved import departed
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import text_header
from lcc.transport.http.streaming import HttpWriter

_PID_MAX = 2**31 - 1
_PARTS = {
    RESOURCES: re.compile(rb"([0-9]{1,19})-([0-9]{1,6})-([0-9]{1,6})\.xml").fullmatch,
    CHANGES: re.compile(rb"([0-9]{1,19})-([0-9]{1,19})-([0-9A-Za-z_]{1,64})\.xml").fullmatch,
}
_is_host = re.compile(
    r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?", re.ASCII
).fullmatch

Begin = Callable[[Txn], Piece]


class _Reader:
    """Reads the parts of a document, one after the other.

    :param home: where it begins.
    """

    def __init__(self, home: Reads, begin: Begin) -> None:
        self.home = home
        self.begin = begin

    async def first(self) -> Piece:
        """The first part.

        :raises StoreUnavailable: nobody answers.
        """
        return await self.home.interact(self.begin)

    async def next(self, piece: Piece) -> Piece:
        """The part after this one."""
        assert piece.after is not None
        return await self.home.interact(piece.after)


class ProviderReader(_Reader):
    """The same of a provider's document: where the provider is by then.  What it leaves has no rows that tell so."""

    def __init__(self, home: Reads, begin: Begin, cache: Cache, pid: int) -> None:
        super().__init__(home, begin)
        self._cache = cache
        self._pid = pid

    async def first(self) -> Piece:
        return await self._at_home(self.begin)

    async def next(self, piece: Piece) -> Piece:
        return await (self._at_home(piece.after) if piece.anywhere and piece.after else super().next(piece))

    async def _at_home(self, part: Begin) -> Piece:
        while True:
            piece = await self.home.interact(_unless_left, self._pid, part)
            if piece is not None:
                return piece
            home = await self._cache.home(self._pid)
            if home is self.home:
                raise StoreUnavailable(f"provider {self._pid} has moved away")
            self.home = home


def _unless_left(txn: Txn, pid: int, part: Begin) -> Piece | None:
    return None if departed(txn, [pid]) else part(txn)


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

    async def begin(self, request: Request, access: Access, url: str) -> _Reader:
        """What reads the document that is asked for.

        :raises HttpError: there is none.
        """
        raise NotImplementedError

    async def answer(self, request: Request, access: Access) -> None:
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        reader = await self.begin(request, access, self._url or own_url(request))
        piece = await reader.first()
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
            piece = await reader.next(piece)
            writer.write(piece.data)
        writer.finish()


class Description(_Document):
    """``GET /.well-known/resourcesync``: the source description."""

    async def begin(self, request: Request, access: Access, url: str) -> _Reader:
        homes = await self.cache.homes()
        pids: list[int] = []
        for home in homes[1:]:
            pids += await home.interact(provider_ids, access.providers, PROVIDERS_MAX)

        def begin(txn: Txn) -> Piece:
            found = sorted({*pids, *provider_ids(txn, access.providers, PROVIDERS_MAX)})
            return Piece(description(url, found[:PROVIDERS_MAX]))

        return _Reader(homes[0], begin)


class Lists(_Document):
    """``GET /resourcesync/PROVIDER/…``: the lists of a provider.

    :ivar resources_each, changes_each: rows, or change numbers, of a part.
    """

    takes_path = True
    resources_each = RESOURCES_EACH
    changes_each = CHANGES_EACH

    async def begin(self, request: Request, access: Access, url: str) -> _Reader:
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

        return ProviderReader(await self.cache.home(pid), begin, self.cache, pid)

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
        if folder == CHANGES.encode():
            first, last = (parse_number(text.decode(), INT64_MAX) for text in match.groups()[:2])
            if not first <= last <= first + CHANGES_EACH:
                raise ValueError("no part of a change list")
            return partial(_change_part, source, first, last, match[3].decode())
        at, count, part = (parse_number(text.decode(), INT64_MAX) for text in match.groups())
        if not part < count <= PARTS_MAX:
            raise ValueError("no part of a resource list")
        return lambda txn: resource_part(txn, source, at, count, part)


def _change_part(source: Source, first: int, last: int, epoch: str, txn: Txn) -> Piece:
    if epoch != database_epoch(txn):
        raise HttpError(404, "this part is of another database, or of one from before a loss: read the list again")
    return change_part(txn, source, first, last)


def own_url(request: Any) -> str:
    """The URL of this server, as the request says.

    :raises HttpError: it does not.
    """
    host = text_header(request, "host") or ""
    if not _is_host(host):
        raise HttpError(400, "the request has no Host that can be part of a URL")
    return f"{'https' if request.isSecure() else 'http'}://{host.lower()}/"
