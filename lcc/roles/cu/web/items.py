"""``/items``: new and changed items of feeds since a token, as JSON lines."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.items import ItemQuery
from lcc.roles.cu.query import QueryError
from lcc.roles.cu.web.replies import Asked
from lcc.transport.http.streaming import HttpWriter

FEEDS_MAX = 1000
PARAMETERS = {
    "since": "a token from an earlier answer; 0: from the beginning",
    "feed": "only items of this feed; may come several times",
    "limit": "items at most",
}


class Items(Asked):
    """``GET /items``.

    :param stall_seconds: who takes nothing for so long is dropped.
    """

    def __init__(
        self,
        cache: Cache,
        authenticator: Authenticator,
        clock: IReactorTime,
        stall_seconds: float,
    ) -> None:
        super().__init__(cache, authenticator)
        self._clock = clock
        self._stall = stall_seconds

    async def answer(self, request: Request, access: Access) -> None:
        page = await self.cache.items(_query(request), access)
        request.setHeader("content-type", JsonLines.media_type)
        request.setHeader("cache-control", "no-store")
        if request.method == b"HEAD":
            request.finish()
            return
        writer = HttpWriter(request, self._clock, self._stall)
        writer.write(page.data)
        while page.after is not None:
            await writer.room()
            page = await self.cache.more_items(page.after)
            writer.write(page.data)
        writer.finish()


def _query(request: Request) -> ItemQuery:
    faults: list[str] = []
    given: dict[str, list[str]] = {}
    for name, values in request.args.items():
        try:
            given[name.decode()] = [value.decode() for value in values]
        except UnicodeDecodeError:
            raise QueryError(["the query string is not UTF-8"]) from None
    for name, values in given.items():
        if name not in PARAMETERS:
            faults.append(f"{name[:80]}: there is no such parameter; there are {', '.join(PARAMETERS)}")
        elif name != "feed" and len(values) > 1:
            faults.append(f"{name}: given twice")
    feeds: frozenset[int] | None = None
    limit = 0
    try:
        if "feed" in given:
            feeds = frozenset(parse_number(value, INT64_MAX, 1) for value in given["feed"][:FEEDS_MAX])
        if "limit" in given:
            limit = parse_number(given["limit"][0], INT64_MAX, 1)
    except ValueError as error:
        faults.append(f"feed or limit: {error}")
    if faults:
        raise QueryError(faults)
    return ItemQuery(given.get("since", [""])[0], feeds, limit)
