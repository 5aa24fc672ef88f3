"""``/urls`` and ``/changes``: rows as JSON lines, XML or CSV."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from lcc.roles.access import Access
from lcc.roles.authenticator import Authenticator
from lcc.roles.cu.answers import Answer, begin_answer
from lcc.roles.cu.cache import Cache
from lcc.roles.cu.formats import FORMATS, Format
from lcc.roles.cu.query import Query, QueryError, parse_query
from lcc.roles.cu.readership import Readership
from lcc.roles.cu.tokens import BEGINNING
from lcc.roles.cu.waiting import answer_when_changed, parse_wait
from lcc.roles.cu.web.replies import Asked
from lcc.transport.http.server import text_header
from lcc.transport.http.streaming import HttpWriter


def asked_pairs(request: Request, *others: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The names and values of a request's query string.

    :param others: names that are no part of the question.
    :returns: those of the question, and the others.
    :raises QueryError: they are no UTF-8, or one of the others comes twice.
    """
    pairs: list[tuple[str, str]] = []
    found: dict[str, str] = {}
    try:
        for name, values in request.args.items():
            for value in values:
                pairs.append((name.decode(), value.decode()))
    except UnicodeDecodeError:
        raise QueryError(["the query string is not UTF-8"]) from None
    for name, value in pairs:
        if name in others:
            if name in found:
                raise QueryError([f"{name}: given twice"])
            found[name] = value
    return [pair for pair in pairs if pair[0] not in others], found


def asked_wait(others: dict[str, str], wait_max_seconds: float) -> float:
    """For how many seconds to wait.

    :param others: the names and values that are no part of the question.
    :raises QueryError: that is no number.
    """
    try:
        return min(parse_wait(others.get("wait", "0")), wait_max_seconds)
    except ValueError as error:
        raise QueryError([f"wait: {error}"]) from None


class Listing(Asked):
    """``GET /urls``: what is in the cache now.

    :param stall_seconds: who takes nothing for so long is dropped.
    """

    def __init__(self, cache: Cache, authenticator: Authenticator, clock: IReactorTime, stall_seconds: float) -> None:
        super().__init__(cache, authenticator)
        self._clock = clock
        self._stall = stall_seconds

    async def send(self, request: Request, form: Format, answer: Answer) -> None:
        """Send an answer."""
        request.setHeader("content-type", form.media_type)
        request.setHeader("cache-control", "no-store")
        if request.method == b"HEAD":
            request.finish()
            return
        writer = HttpWriter(request, self._clock, self._stall)
        while not answer.ended:
            await writer.room()
            writer.write((await answer.next_piece()).data)
        writer.finish()

    def prepare(self, request: Request) -> tuple[Query, Format, float]:
        """What is asked for: the question, the format, how long to wait for something new.

        :raises QueryError: with everything that is wrong.
        """
        pairs, others = asked_pairs(request, "format")
        query = parse_query(pairs)
        if query.since is not None:
            raise QueryError(["since: belongs to /changes"])
        return query, _format(request, others.get("format")), 0.0

    async def answer(self, request: Request, access: Access) -> None:
        query, form, _ = self.prepare(request)
        answer = await begin_answer(self.cache, query.within(access.providers), form)
        await self.send(request, form, answer)


class Changes(Listing):
    """``GET /changes``: what has changed since a token; with ``wait``, as soon as there is something.

    :param wait_max_seconds: nobody waits for longer.
    :param readership: notes how far users are.
    """

    def __init__(
        self,
        cache: Cache,
        authenticator: Authenticator,
        clock: IReactorTime,
        stall_seconds: float,
        wait_max_seconds: float,
        readership: Readership,
    ) -> None:
        super().__init__(cache, authenticator, clock, stall_seconds)
        self._wait_max = wait_max_seconds
        self._readership = readership

    def prepare(self, request: Request) -> tuple[Query, Format, float]:
        pairs, others = asked_pairs(request, "format", "wait")
        query = parse_query(pairs)
        if query.since is None:
            query = attrs.evolve(query, since=BEGINNING[0])
        return query, _format(request, others.get("format")), asked_wait(others, self._wait_max)

    async def answer(self, request: Request, access: Access) -> None:
        query, form, wait = self.prepare(request)
        query = query.within(access.providers)
        self._readership.has(access, query.since)
        answer = await answer_when_changed(self.cache, self._clock, query, form, wait)
        await self.send(request, form, answer)


def _format(request: Request, name: str | None) -> Format:
    if name is not None:
        form = FORMATS.get(name)
        if form is None:
            raise QueryError([f"format: {name[:80]!r} is none of {', '.join(FORMATS)}"])
        return form
    accepted = (text_header(request, "accept") or "").lower()
    named = [form for form in FORMATS.values() if form.media_type in accepted]
    return named[0] if named else FORMATS["jsonl"]
