"""Errors, grouped and one by one; trying again; and where one URL stands."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import attrs

from lcc.domain.keys import url_key
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.push_words import push_records
from lcc.insight.why import explain
from lcc.insight.why_words import say
from lcc.model import StoredError
from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.front import own_path, printable
from lcc.roles.web.pages.base import MonitorPage
from lcc.roles.web.pages.providers import masks_of, number
from lcc.storage.database.migrations import PUSH
from lcc.storage.database.tables.order_rows import FETCH_PAGE, RETRY, add_order, is_open
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import NoSuchProvider, registered_provider
from lcc.storage.views.inspect import WaitingUrl, kept_errors, waiting_urls
from lcc.storage.views.provider_lists import ProviderChoice, chosen_providers
from lcc.storage.views.provider_pages import ListedProvider
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_ERRORS = 100
PAGE_SITES = 10


class ErrorsPage(MonitorPage):
    """``/errors``: all groups; ``/errors?code=N``: what has failed with one error, some at a time."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        code, pid = number(query.get("code", "0")), number(query.get("pid", "0"))
        order, skip = number(query.get("order", "0")), number(query.get("skip", "0"))
        owner, _, last = query.get("after", "0-0").partition("-")
        after = (number(owner), _error_number(last))
        if not code and not pid and not query.keys() & {"skip", "after"}:
            waits = bool(order) and await self.monitor.database.interact(is_open, order)
            self.front.page(
                request, "errors", "Errors", summary=self.monitor.summary, ordered=order, order_open=waits
            )
            return
        asked = _Asked(order, pid, code, after, skip, self.monitor.settings.rows_max, self.monitor.now())
        found = await self.monitor.database.interact(_read, asked)
        of_provider = f" of provider {pid}" if pid else ""
        self.front.page(
            request,
            "error_list",
            f"Errors {code}{of_provider}" if code else f"Errors{of_provider}",
            code=code,
            pid=pid,
            found=found,
            first=not skip and not any(after),
            masks=masks_of(self.front, found.sites, self.monitor.now()),
            after=f"{found.final[-1][0]}-{found.final[-1][1].number}" if len(found.final) == PAGE_ERRORS else "",
            skip=skip + PAGE_ERRORS if len(found.waiting) == PAGE_ERRORS else 0,
            ordered=order,
            order_open=found.order_open,
        )


def _error_number(text: str) -> int:
    """The number of an error; those that are not for the provider have numbers below 0.

    :raises HttpError: it is none.
    """
    try:
        return parse_number(text, INT64_MAX, -INT64_MAX)
    except ValueError:
        raise HttpError(404, "Page not found: the number of an error is required.") from None


@attrs.frozen
class _Asked:
    """Which errors a page shows.

    :ivar order: a retry that it tells of; 0: none.
    :ivar after: (provider, number) of the final error before its first; (0, 0): none.
    :ivar skip: waiting URLs before its first.
    """

    order: int
    pid: int
    code: int
    after: tuple[int, int]
    skip: int
    rows_max: int
    now: float


@attrs.frozen
class _Found:
    """What has failed.

    :ivar sites: the first unreachable ones of ``sites_count``.
    :ivar final: (provider, error).
    """

    order_open: bool
    sites_count: int
    sites: tuple[ListedProvider, ...]
    waiting: tuple[WaitingUrl, ...]
    final: tuple[tuple[int, StoredError], ...]


def _read(txn: Txn, asked: _Asked) -> _Found:
    later, further = bool(asked.skip), any(asked.after)
    count, sites = 0, list[ListedProvider]()
    if not (asked.pid or later or further):
        choice = ProviderChoice("unreachable", asked.code)
        count, sites = chosen_providers(txn, choice, 0, PAGE_SITES, asked.now)
    waiting = [] if further else waiting_urls(txn, asked.pid, asked.code, asked.skip, PAGE_ERRORS, asked.rows_max)
    final = [] if later else kept_errors(txn, asked.pid, asked.code, asked.after, PAGE_ERRORS)
    waits = bool(asked.order) and is_open(txn, asked.order)
    return _Found(waits, count, tuple(sites), tuple(waiting), tuple(final))


class RetryPage(MonitorPage):
    """``/retry``: orders what ``lcc-admin retry`` orders."""

    methods = (b"POST",)

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        pid, code = number(fields.get("pid", "0")), number(fields.get("code", "0"))
        back = own_path(fields.get("back", "/errors"))
        order = await self.monitor.database.write(_order, RETRY, pid, code)
        self.ordered(request, "a retry of what failed:", f"provider {pid}, error {code} (0: all)")
        path, _, query = back.partition("?")
        kept = [part for part in query.split("&") if part and not part.startswith("order=")]
        self.front.redirect(request, f"{path}?{'&'.join([*kept, f'order={order}'])}")


def _order(txn: Txn, kind: str, pid: int, code: int, text: str = "") -> int:
    if (pid or kind != RETRY) and registered_provider(txn, pid) is None:
        raise HttpError(404, f"There is no provider {pid}.")
    return add_order(txn, kind, pid, code, text)


class UrlPage(MonitorPage):
    """``/url?url=…``: the words of ``lcc-admin why``, what is cached; it can be fetched now."""

    methods = (b"GET", b"HEAD", b"POST")

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        pid, order = number(query.get("pid", "0")), number(query.get("order", "0"))
        try:
            name = normalise(query.get("url", ""))
        except UrlError as error:
            raise HttpError(400, f"Invalid URL: {error}.") from None
        answer = await self._explained(name, pid)
        waits = bool(order) and await self.monitor.database.interact(is_open, order)
        answer["pushes"] = await self.seen(PUSH, self.monitor.push.interact, push_records, name) or []
        lines = [((len(line) - len(line.lstrip())) // 2, line.strip()) for line in say(answer)]
        self.front.page(
            request,
            "url",
            "Status of a URL",
            url=name,
            lines=lines[1:],
            providers=answer["providers"],
            ordered=order,
            order_open=waits,
        )

    async def post(self, request: BodyRequest) -> None:
        fields = self.sent(request)
        pid, text = number(fields.get("pid", "0")), fields.get("url", "")
        try:
            name = normalise(text)
        except UrlError as error:
            raise HttpError(400, f"Invalid URL: {error}.") from None
        known = (await self._explained(name, pid))["providers"]
        if not any(each["views"] or each["errors"] for each in known):
            raise HttpError(404, f"Provider {pid} has not submitted this URL, or has deleted it: nothing to fetch.")
        order = await self.monitor.database.write(_order, FETCH_PAGE, pid, 0, url_key(pid, name, "").hex())
        self.ordered(request, "a fetch from provider", f"{pid} of {printable(text, 500)!r}")
        self.front.redirect(request, f"/url?{urlencode({'url': text, 'pid': pid, 'order': order})}")

    async def _explained(self, name: str, pid: int) -> dict[str, Any]:
        """What is known of a URL.

        :raises HttpError: there is no such provider.
        """
        try:
            answer: dict[str, Any] = await self.monitor.database.interact(
                explain, self.monitor.config, int(self.monitor.now()), name, pid or None
            )
        except NoSuchProvider as error:
            raise HttpError(404, f"{error}.".capitalize()) from None
        return answer
