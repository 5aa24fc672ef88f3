"""Providers: the list, a page for each, and the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.insight.moving import left_text, moving_text
from lcc.insight.qm_state import Live, read_live
from lcc.model import Delay, Provider, ProviderStatus, StoredError
from lcc.numbers import INT64_MAX, parse_number
from lcc.roles.front import printable
from lcc.roles.web.pages.base import Front, MonitorPage
from lcc.roles.web.plots import Mask, mask
from lcc.storage.database.tables.order_rows import is_open
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.pid_range import PID_MAX
from lcc.storage.providers.providers import get_provider, provider_status
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.views.failures import Failures, failures
from lcc.storage.views.inspect import delays_of, owners
from lcc.storage.views.provider_lists import DELAY_REASONS, FILTERS, ORDERS, ProviderChoice, chosen_providers
from lcc.storage.views.provider_pages import (
    FoundUrl,
    ListedProvider,
    neighbours,
    newest_errors,
    next_urls,
    providers_after,
    providers_before,
    providers_named,
    these_providers,
    urls_beginning,
    waiting_sets,
)
from lcc.transport.http.pages import read_query
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest

PAGE_PROVIDERS = 50
FOUND_PROVIDERS = 100
FOUND_URLS = 100
OWNERS_MAX = 5
"""Providers whose URLs are looked through at once."""
NEXT_ROWS = 10
SETS = 20
NEWEST_ERRORS = 10
SEARCH_CHARS = 4000
SITE_CHARS = 100
SITE_CHARS_MIN = 2


class ProvidersPage(MonitorPage):
    """``/providers``: a page of them at a time, by id; or those of a filter, sorted."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        choice = _choice(query)
        skip = number(query.get("skip", "0"))
        now = self.monitor.now()
        asked = self.monitor.database.interact
        count, by_id = 0, choice == ProviderChoice()
        if not by_id:
            count, listed = await asked(chosen_providers, choice, skip, PAGE_PROVIDERS, now)
        elif "before" in query:
            listed = await asked(providers_before, number(query["before"]), PAGE_PROVIDERS, now)
        else:
            listed = await asked(providers_after, number(query.get("after", "0")), PAGE_PROVIDERS, now)
        self.front.page(
            request,
            "providers",
            "Providers",
            choice=choice,
            count=count,
            skip=skip,
            page_size=PAGE_PROVIDERS,
            providers=listed,
            masks=masks_of(self.front, listed, now),
            by_id=by_id,
            more=len(listed) == PAGE_PROVIDERS if by_id else skip + PAGE_PROVIDERS < count,
            earlier=by_id and bool(listed) and listed[0].pid > 1,
            summary=self.monitor.summary,
        )


def _choice(query: dict[str, str]) -> ProviderChoice:
    """
    :raises HttpError: there is no such filter or order.
    """
    only, order = query.get("only", ""), query.get("order", "id")
    if (only and only not in (*FILTERS, *DELAY_REASONS)) or order not in ORDERS:
        raise HttpError(404, "There is no such list of providers.")
    priority = number(query["priority"]) if query.get("priority") else None
    return ProviderChoice(only, number(query.get("code", "0")), priority, order)


def masks_of(front: Front, providers: Sequence[ListedProvider], now: float) -> dict[int, Mask]:
    """Their hours to be drawn, by id."""
    slots = slots_of(front)
    return {each.pid: drawn(slots, each.hours, each.timezone, now) for each in providers}


class ProviderPage(MonitorPage):
    """``/provider/N``: one provider in detail."""

    def takes(self, request: Any) -> bool:
        return len(request.postpath) == 1

    async def get(self, request: BodyRequest) -> None:
        pid = number((request.postpath or [b""])[0].decode("latin-1"))
        order = number(read_query(request).get("order", "0"))
        now = self.monitor.now()
        found = await self.monitor.database.interact(_look_at, pid, int(now), order, self.monitor.settings.rows_max)
        if found is None:
            there = await self.monitor.database.interact(left_text, pid)
            raise HttpError(404, there or f"There is no provider {pid}.")
        slots, provider = slots_of(self.front), found.provider
        self.front.page(
            request,
            "provider",
            f"Provider {pid}{site_of(provider.roots)}",
            found=found,
            provider=provider,
            mask=drawn(slots, provider.hours, provider.timezone, now),
            zone=provider.timezone or slots.timezone or "the LCC's own time zone",
            opens=slots.opening(slots.mask(provider.hours), now, provider.timezone),
            ordered=order,
        )


class SearchPage(MonitorPage):
    """``/search``: providers by id, root or contact; URLs, exactly or by how they begin."""

    async def get(self, request: BodyRequest) -> None:
        query = read_query(request)
        text = query.get("q", "").strip()
        if len(text) > SEARCH_CHARS:
            raise HttpError(400, f"At most {SEARCH_CHARS} characters can be searched for.")
        if text.isascii() and text.isdigit():
            self.front.redirect(request, f"/provider/{number(text)}")
            return
        fault = ""
        found = _Found()
        if "://" in text:
            try:
                found = await self._urls(text, query)
            except UrlError as error:
                fault = f"Invalid URL: {error}."
        elif text and len(text) < SITE_CHARS_MIN:
            fault = f"At least {SITE_CHARS_MIN} characters are required."
        elif text:
            found = await self.monitor.database.interact(_find_providers, text, self.monitor.now())
        self.front.page(
            request,
            "search",
            "Search",
            text=text,
            fault=fault,
            found=found,
            masks=masks_of(self.front, found.providers, self.monitor.now()),
            rows=self.monitor.settings.rows_max,
        )

    async def _urls(self, text: str, query: dict[str, str]) -> _Found:
        after = None
        if "after" in query:
            try:
                after = bytes.fromhex(query["after"])
            except ValueError:
                raise HttpError(400, "Invalid address.") from None
        name = normalise(text.rstrip("*"))
        pid = number(query.get("pid", "0"))
        rows = self.monitor.settings.rows_max
        found = await self.monitor.database.interact(_find_urls, name, pid, after, rows, self.monitor.now())
        return attrs.evolve(found, exact="" if text.endswith("*") else name)


@attrs.frozen
class _Found:
    """Results of a search.

    :ivar exact: the URL, normalised, where one was meant; empty: how it begins.
    :ivar further: (provider, key) behind which to look on.
    """

    providers: tuple[ListedProvider, ...] = ()
    urls: tuple[FoundUrl, ...] = ()
    exact: str = ""
    further: tuple[tuple[int, str], ...] = ()


@attrs.frozen
class _Looked:
    """What the page of a provider shows.

    :ivar sets: as :func:`lcc.storage.views.provider_pages.waiting_sets` gives them.
    :ivar next: (url, mime type) of what is fetched next.
    :ivar order_open: the order that the page was asked to tell of is not carried out yet.
    :ivar moving: how it moves to another sub-LCC, or from one; empty: it does not.
    """

    provider: Provider
    status: ProviderStatus
    listed: ListedProvider
    delays: tuple[Delay, ...]
    failures: Failures
    errors: tuple[StoredError, ...]
    sets: tuple[tuple[int, int, bool, int, int], ...]
    next: tuple[tuple[str, str], ...]
    before: int | None
    after: int | None
    live: Live
    order_open: bool
    moving: str


def _look_at(txn: Txn, pid: int, now: int, order: int, rows_max: int) -> _Looked | None:
    provider = get_provider(txn, pid)
    if provider is None:
        return None
    listed = these_providers(txn, [pid], now)[0]
    before, after = neighbours(txn, pid)
    return _Looked(
        provider=provider,
        status=provider_status(txn, pid, 0),
        listed=listed,
        delays=tuple(delays_of(txn, pid, now)),
        failures=failures(txn, now, rows_max, pid),
        errors=tuple(newest_errors(txn, pid, NEWEST_ERRORS)),
        sets=tuple(waiting_sets(txn, pid, SETS)),
        next=tuple(next_urls(txn, pid, NEXT_ROWS)),
        before=before,
        after=after,
        live=read_live(saved_state(txn), now),
        order_open=bool(order) and is_open(txn, order),
        moving=moving_text(txn, pid),
    )


def _find_providers(txn: Txn, text: str, now: float) -> _Found:
    return _Found(tuple(these_providers(txn, providers_named(txn, text, FOUND_PROVIDERS), now)))


def _find_urls(txn: Txn, name: str, pid: int, after: bytes | None, rows: int, now: float) -> _Found:
    """
    :param pid: only this provider's; 0: all that it belongs to.
    """
    pids = [pid] if pid else [owner.pid for owner in owners(txn, name)][:OWNERS_MAX]
    found: list[FoundUrl] = []
    further: list[tuple[int, str]] = []
    for each in pids:
        urls, end = urls_beginning(txn, each, name, after, rows, FOUND_URLS)
        found += urls
        if end is not None:
            further.append((each, end.hex()))
    listed = pids or providers_named(txn, name, FOUND_PROVIDERS)
    return _Found(tuple(these_providers(txn, listed, now)), tuple(found), "", tuple(further))


def site_of(roots: Sequence[str]) -> str:
    """The site of a provider, behind its number in a title; empty: it has none."""
    host = printable(urlsplit(roots[0]).netloc.rpartition("@")[2], SITE_CHARS) if roots else ""
    return f" · {host}" if host else ""


def slots_of(front: Front) -> TimeSlots:
    """The LCC's slots."""
    config = front.monitor.config
    return TimeSlots(config.slots, config.slot_seconds, config.timezone)


def drawn(slots: TimeSlots, hours: str, timezone: str, now: float) -> Mask:
    """Hours to be drawn."""
    return mask(slots.mask(hours), slots.slots, slots.current(now, timezone))


def number(text: str) -> int:
    """A number of an address.

    :raises HttpError: it is none.
    """
    try:
        found = parse_number(text, INT64_MAX)
    except ValueError:
        raise HttpError(404, "Page not found: a number is required.") from None
    if found > PID_MAX:
        raise HttpError(404, "Page not found: the number is too large.")
    return found
