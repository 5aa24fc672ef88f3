"""From pages of the cache, and their texts, to what the index takes."""

from __future__ import annotations

from lcc.domain.notices.elements import NOT_BROWSABLE
from lcc.domain.registration.sites import host_of
from lcc.model.spider.links import Page, PageLinks
from lcc.model.states import CACHED
from lcc.search.texts import TYPES
from lcc.search.values import IndexChange, IndexedPage, RemovedPage
from lcc.storage.database.tables.key_ranges import is_untyped


def is_read(page: Page) -> bool:
    """Whether its text is to be read."""
    return page.row.state == CACHED and not page.missing and page.row.mimetype in TYPES


_DAY_SECONDS = 86400


def index_change(page: Page, text: PageLinks | None, now: float) -> IndexChange | None:
    """What becomes of a page in the index; None: nothing, it is of a type that none of whose pages are in it.

    :param text: of the page, if :func:`is_read`.
    :param now: seconds since 1970; no page is newer by more than a day, or it would be the newest one for ever.
    """
    row = page.row
    key = row.key.hex()
    if row.state != CACHED:
        return RemovedPage(key)
    if row.mimetype not in TYPES:
        # Of a page whose type nobody has told it may have been another one before.
        return RemovedPage(key) if is_untyped(row.key) else None
    fault = text.faults[0] if text is not None and text.faults and not text.text else ""
    browsable = row.burl != NOT_BROWSABLE
    return IndexedPage(
        key=key,
        change=row.change,
        provider=row.pid,
        url=row.burl if row.burl and browsable else row.curl,
        site=host_of(row.curl),
        type=TYPES[row.mimetype],
        date=min(row.mtime or row.fetched_time or 0, int(now + _DAY_SECONDS)),
        title="" if text is None else text.title,
        headings="" if text is None else text.headings,
        text="" if text is None else text.text,
        language="" if text is None else text.language,
        browsable=browsable,
        hidden=text is not None and text.noindex,
        has_copy=text is None or not text.noarchive,
        missing=bool(page.missing),
        fault=fault,
    )
