"""``/search``: results as a page, as JSON, or as an Atom feed."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from twisted.web.server import Request

from lcc.numbers import parse_number
from lcc.roles.front import printable
from lcc.roles.search.pages.base import SearchFrontPage
from lcc.roles.search.pages.feed import ATOM, feed
from lcc.roles.search.readers import Reader
from lcc.search.interfaces import BadPlace
from lcc.search.json_answer import results_json
from lcc.search.query import QueryError, parse_query
from lcc.search.values import Facet, Hit, Order, Query, Results
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError, reply, show_json
from lcc.transport.http.security import set_page_headers
from lcc.transport.http.server import BodyRequest

FORMATS = ("html", "json", "atom")
HITS, FEED_HITS, HITS_MAX = 10, 30, 100
"""On a page, in a feed, and at most."""
TITLE_CHARS = 200


class StartPage(SearchFrontPage):
    """``/``: the field alone."""

    async def answer(self, request: BodyRequest, reader: Reader) -> None:
        self.front.page(request, "start", self.front.name)


class ResultsPage(SearchFrontPage):
    """``/search?q=…``: ``format`` is html, json or atom; ``order`` rank or date; ``limit`` and ``after`` for pages of
    results."""

    def for_programs(self, request: Request) -> bool:
        return (request.args or {}).get(b"format", [b"html"]) not in ([b"html"], [b""])

    async def answer(self, request: BodyRequest, reader: Reader) -> None:
        asked = read_query(request)
        form = asked.get("format", "") or "html"
        if form not in FORMATS:
            raise HttpError(400, f"format: {printable(form, 40)!r} is not {', '.join(FORMATS)}")
        text = asked.get("q", "").strip()
        if not text and form == "html":
            self.front.redirect(request, "/")
            return
        order = asked.get("order", "") or (Order.DATE.value if form == "atom" else "")
        try:
            query = parse_query(text, order, self.front.engine.now())
            limit = _limit(asked.get("limit", ""), FEED_HITS if form == "atom" else HITS)
            after = asked.get("after", "")
            results = await self.front.engine.search(query, reader.access.providers, limit, after)
        except (QueryError, BadPlace) as error:
            self._refused(request, form, text, order, error)
            return
        if form == "json":
            told = results_json(query, results, self.front.engine.index.state.complete)
            self._send(request, "application/json", json.dumps(told).encode() + b"\n")
        elif form == "atom":
            self._send(request, ATOM, feed(query, results, self.front.base(request), self.front.name))
        else:
            self._page(request, query, results, bool(after))

    def _refused(self, request: BodyRequest, form: str, text: str, order: str, error: ValueError) -> None:
        at = error.at if isinstance(error, QueryError) else None
        if form == "html":
            said = str(error) if at is None else f"{error} (at character {at + 1})"
            self.front.page(
                request, "refused", "Invalid query", 400, q=printable(text, 1000), order=order, fault=printable(said)
            )
        else:
            place = {"at": at} if isinstance(error, QueryError) else {}
            show_json(request, (400, {"error": str(error), **place}, {}))

    def _send(self, request: BodyRequest, media_type: str, body: bytes) -> None:
        set_page_headers(request, self.front.secure)
        reply(request, 200, media_type, body, {})

    def _page(self, request: BodyRequest, query: Query, results: Results, further: bool) -> None:
        text, order = query.text, query.order
        now = self.front.engine.now()
        by_rank, by_date = address(text, Order.RANK), address(text, Order.DATE)
        self.front.page(
            request,
            "results",
            f"{printable(text, 60)} · {self.front.name}",
            q=text,
            order=order.value,
            results=results,
            hits=[shown(hit) for hit in results.hits],
            further=further,
            complete=self.front.engine.index.state.complete,
            first=address(text, order),
            next=address(text, order, after=results.next) if results.next else "",
            orders=(("Best first", by_rank, order is Order.RANK), ("Newest first", by_date, order is Order.DATE)),
            suggestion=address(results.suggestion, order) if results.suggestion else "",
            narrower=(
                ("site", narrower(text, "host", several(results.sites), order, now)),
                ("type", narrower(text, "type", several(results.types), order, now)),
            ),
            feed=address(text, Order.DATE, format="atom"),
            json=address(text, order, format="json"),
        )


def address(text: str, order: Order, **more: str) -> str:
    """Where the results of a query are."""
    fields = {"q": text, **({} if order is Order.RANK else {"order": order.value}), **more}
    return f"/search?{urlencode(fields, errors='replace')}"


def several(facets: tuple[Facet, ...]) -> tuple[Facet, ...]:
    """Those to choose among; one alone is no choice."""
    return facets if len(facets) > 1 else ()


def narrowed(text: str, prefix: str, facet: Facet) -> str:
    """The query, of this site or type only."""
    closed = f'{text}"' if text.count('"') % 2 else text
    return f"{closed} {prefix}:{facet.name}"


def narrower(text: str, prefix: str, facets: tuple[Facet, ...], order: Order, now: float) -> list[tuple[Facet, str]]:
    """Where the results of each are; those whose query would be too long are left out."""
    found = []
    for each in facets:
        query = narrowed(text, prefix, each)
        try:
            parse_query(query, order.value, now)
        except QueryError:
            continue
        found.append((each, address(query, order)))
    return found


def shown(hit: Hit) -> dict[str, Any]:
    """A hit, for a page: nothing in it turns the text around, or is too long."""
    title = " ".join(printable(hit.title, TITLE_CHARS).split())
    return {"hit": hit, "title": title, "pieces": [(printable(text), on) for text, on in hit.snippet.pieces()]}


def _limit(text: str, usual: int) -> int:
    if not text:
        return usual
    try:
        limit = parse_number(text, HITS_MAX)
    except ValueError:
        limit = 0
    if not limit:
        raise QueryError(f"limit: {printable(text, 20)!r} is not a number from 1 to {HITS_MAX}")
    return limit
