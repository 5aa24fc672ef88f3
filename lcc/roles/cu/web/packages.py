"""``/package``: rows with their content as one file."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.server import Request

from lcc.errors import StoreUnavailable
from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.answers import Answer, begin_answer
from lcc.roles.cu.cache import Cache, row_of
from lcc.roles.cu.formats import Nothing
from lcc.roles.cu.packages.kinds import KINDS, Kind, NotInstalled
from lcc.roles.cu.packages.production import GivenUp, NoRoom, Production, TooMany, Workshop
from lcc.roles.cu.query import QueryError, parse_query
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.waiting import answer_when_changed
from lcc.roles.cu.web.listings import asked_pairs, asked_wait
from lcc.roles.cu.web.replies import Asked
from lcc.transport.http.replies import RETRY_SECONDS, HttpError
from lcc.transport.http.streaming import HttpWriter
from lcc.transport.ports.connection_limits import party_of

_log = Logger()


_ROWS = Nothing()


class Packages(Asked):
    """``GET /package``: many rows with their content, as one archive.

    :param workshop: makes them.
    :param stall_seconds: who takes nothing for so long is dropped.
    :param wait_max_seconds: nobody waits for longer.
    :param rate_min: who takes fewer bytes per second is; 0: no such limit.
    :param by_address: who has no token is known by its address; else (behind a proxy) nobody can be told from others.
    :param readership: notes how far users are.
    """

    def __init__(
        self,
        cache: Cache,
        authenticator: Authenticator,
        workshop: Workshop,
        clock: IReactorTime,
        stall_seconds: float,
        wait_max_seconds: float,
        rate_min: int,
        by_address: bool,
        readership: Readership,
    ) -> None:
        super().__init__(cache, authenticator)
        self._workshop = workshop
        self._clock = clock
        self._stall = stall_seconds
        self._wait_max = wait_max_seconds
        self._rate_min = rate_min
        self._by_address = by_address
        self._readership = readership

    async def answer(self, request: Request, access: Access) -> None:
        if not access.content:
            raise HttpError(403, "this token is for rows only")
        pairs, others = asked_pairs(request, "kind", "wait")
        name, kind = _kind(others)
        query = parse_query(pairs).within(access.providers)
        wait = asked_wait(others, self._wait_max)
        if request.method == b"HEAD":
            await begin_answer(self.cache, query, _ROWS)
            _set_headers(request, name, kind)
            request.finish()
            return
        if query.since is not None:
            self._readership.has(access, query.since)
        answer = await answer_when_changed(self.cache, self._clock, query, _ROWS, wait)
        try:
            production = self._workshop.order(kind, query, self._share_of(request, access))
        except TooMany as error:
            whose = " for one user" if error.own else ""
            text = f"as many packages are being made as may be at once{whose}"
            raise HttpError(429 if error.own else 503, text, retry_after=str(RETRY_SECONDS)) from None
        except NotInstalled as error:
            raise HttpError(501, str(error)) from None
        writer = HttpWriter(request, self._clock, self._stall, self._rate_min)
        try:
            _set_headers(request, name, kind)
            await self._send(writer, production, answer)
            writer.finish()
        except NoRoom as error:
            _log.error("Cannot make a package: {why}", why=str(error))
            text = "this LCC has no room to make packages, try again later"
            raise HttpError(503, text, retry_after=str(RETRY_SECONDS)) from None
        except GivenUp:
            raise HttpError(503, "this LCC is stopping", retry_after=str(RETRY_SECONDS)) from None
        finally:
            self._workshop.done(production)
            if not request.startedWriting:
                writer.close()
                request.responseHeaders.removeHeader("content-disposition")

    def _share_of(self, request: Request, access: Access) -> str:
        """Whose share of the packages one counts for; empty: nobody can be told from another."""
        if access.cuid:
            return f"user {access.cuid}"
        return party_of(request.getClientAddress()) if self._by_address else ""

    async def _send(self, writer: HttpWriter, production: Production, answer: Answer) -> None:
        production.begin()
        await self._pass_on(writer, production)
        piece = None
        while not answer.ended:
            piece = await answer.next_piece()
            if piece.missing:  # a package cannot say so
                raise StoreUnavailable(f"sub-LCC {', '.join(piece.missing)} cannot be reached")
            production.rows(piece.urls)
            await self._pass_on(writer, production)
        production.end(None if piece is None else piece.token)
        await self._pass_on(writer, production, last=True)

    async def _pass_on(self, writer: HttpWriter, production: Production, last: bool = False) -> None:
        row = None
        while True:
            await writer.room()
            made = await production.step(row, last)
            writer.write(made.data)
            if made.ended:
                return
            row = None if made.again is None else await row_of(self.cache, made.again)


def _kind(others: dict[str, str]) -> tuple[str, Kind]:
    name = others.get("kind", "")
    kind = KINDS.get(name)
    if kind is None:
        raise QueryError([f"kind: {name[:80]!r} is none of {', '.join(KINDS)}"])
    return name, kind


def _set_headers(request: Request, name: str, kind: Kind) -> None:
    request.setHeader("content-type", kind.media_type)
    request.setHeader("content-disposition", f'attachment; filename="lcc.{name}"')
    request.setHeader("cache-control", "no-store")
