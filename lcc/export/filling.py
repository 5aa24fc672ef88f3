"""Brings an index that is written in this process up to date.

The index keeps its own place: each commit holds the pages and the token behind them.  Whoever is killed goes on from
the last commit, which has every change before its token once, and none behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import attrs

from lcc.client.blocking import Cache, StartAgain
from lcc.commands.errors import Failed
from lcc.commands.progress import progress
from lcc.export.contents import Contents, Document
from lcc.export.pages import Page
from lcc.export.run import HELD_OVER_SECONDS, Asked, OtherSelection, Outcome
from lcc.export.source import NoLongerKnown
from lcc.model.states import CACHED

BATCH_PAGES = 5000
"""Between two commits."""
TEXT_CHARS_MAX = 10_000_000
"""Of a page: what is behind is not found."""


@attrs.frozen
class Fields:
    """A page as an index gets it.

    :ivar url: where people find it; else its conceptual URL.
    :ivar text: without markup; empty: it is none that can be read.
    :ivar modified, fetched: seconds since 1970.
    :ivar fault: why the text could not be read; empty: it could.
    """

    key: str
    url: str
    curl: str
    provider: int
    mimetype: str
    subtype: str
    title: str
    text: str
    size_bytes: int
    modified: int | None
    fetched: int | None
    fault: str = ""

    @classmethod
    def of(cls, document: Document) -> Fields:
        """Of a page with its content."""
        page, words = document.page, document.words(TEXT_CHARS_MAX)
        return cls(
            page.key,
            page.burl or page.curl,
            page.curl,
            page.pid,
            page.mimetype,
            page.subtype,
            words.title,
            words.text,
            document.size_bytes,
            page.mtime,
            page.fetched_time,
            words.fault,
        )

    @property
    def terms(self) -> tuple[tuple[str, str], ...]:
        """Name and value of what is found as a whole only; none is empty."""
        found = {name: getattr(self, name) for name in ("key", "url", "curl", "mimetype", "subtype")}
        return tuple((name, text) for name, text in found.items() if text)

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Name and value of what is found by its words; none is empty."""
        return tuple((name, text) for name, text in (("title", self.title), ("text", self.text)) if text)

    @property
    def numbers(self) -> tuple[tuple[str, int], ...]:
        """Name and value of what is known of these numbers."""
        found = (("modified", self.modified), ("fetched", self.fetched), ("size", self.size_bytes))
        return tuple((name, number) for name, number in found if number is not None)


class Index(Protocol):
    """An index; nothing of what is written counts before it is committed.

    :raises Failed: (all of them) it cannot be read or written.
    """

    place: str
    """What the last commit was given; empty: there was none."""

    def put(self, fields: Fields) -> None:
        """Add a page; the one that has its key goes."""
        ...

    def remove(self, key: str) -> None:
        """Remove a page, if it is there."""
        ...

    def clear(self) -> None:
        """Remove all pages."""
        ...

    def commit(self, place: str) -> None:
        """Make all of it durable, with this place, at once."""
        ...

    def close(self) -> None:
        """Close it; what was not committed is forgotten."""
        ...


@attrs.frozen
class Place:
    """How far an index has come.

    :ivar token: behind the changes that it has; empty: none.
    :ivar asked: what it is an index of (:meth:`lcc.export.run.Asked.said`).
    :ivar held_over: pages whose content could not be had, packed, by their keys.
    """

    token: str = ""
    asked: str = ""
    held_over: Mapping[str, str] = attrs.field(factory=dict)

    def pack(self) -> str:
        """Serialize it."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def unpack(cls, text: str) -> Place:
        """What :meth:`pack` gave, or the beginning, where there is nothing.

        :raises Failed: it is none of ours.
        """
        try:
            return cls(**json.loads(text or "{}"))
        except (ValueError, TypeError):
            raise Failed("the index was written by another version of lcc-export", "use another folder") from None


def fill(cache: Cache, index: Index, asked: Asked, batch_pages: int = BATCH_PAGES) -> Outcome:
    """Bring an index up to date.

    An index that begins anew is committed as a whole: until then those who search it find what was there before.

    :raises NoLongerKnown: the changes since the last time are no longer known.
    :raises CacheError: the LCC cannot be asked.
    :raises Failed: the index cannot be read or written.
    """
    place, said = Place.unpack(index.place), asked.said()
    if place.asked not in ("", said) and not asked.rebuild:
        raise OtherSelection(
            "the index is of another selection", "choose another folder, or start over with --rebuild"
        )
    full = asked.rebuild or not place.token
    if full:
        index.clear()
        place = Place(asked=said)
    filler = _Filler(Contents(cache), index, dict(place.held_over))
    token, told = place.token, False
    with progress("indexing") as more:
        for _ in filler.again():
            told = True
            more(1)
        # Who still waits for some does not wait for long.
        wait = min(asked.wait_seconds, HELD_OVER_SECONDS) if filler.held_over else asked.wait_seconds
        while True:
            rows, token = _batch(cache, asked, token, 0 if told else wait, batch_pages)
            for row in rows:
                filler.take(row)
                more(1)
            told = told or bool(rows)
            ended = len(rows) < batch_pages
            if (told or full) and (ended or not asked.rebuild):
                index.commit(Place(token, said, filler.held_over).pack())
            if ended:
                return Outcome(full, told, len(filler.held_over), filler.unread, filler.fault)


def _batch(cache: Cache, asked: Asked, token: str, wait: int, limit: int) -> tuple[list[dict[str, Any]], str]:
    """The next changes, all read before the first content is asked for, and the token behind them."""
    try:
        rows = cache.changes(token or "0", wait=wait, limit=limit, **asked.fields)
    except StartAgain as error:
        raise NoLongerKnown(str(error), "use --rebuild to export everything again") from None
    found = list(rows)
    assert rows.token is not None
    return found, rows.token


class _Filler:
    """Writes pages into an index.

    :ivar held_over: as of :class:`Place`.
    :ivar unread, fault: as of :class:`lcc.export.run.Outcome`.
    """

    def __init__(self, contents: Contents, index: Index, held_over: dict[str, str]) -> None:
        self._contents = contents
        self._index = index
        self.held_over = held_over
        self.unread = 0
        self.fault = ""

    def again(self) -> Iterator[Page]:
        """Write those whose content could not be had before."""
        pages = [Page.unpack(text) for text in self.held_over.values()]
        self.held_over = {}
        for page in pages:
            self._write(page)
            yield page

    def take(self, row: Mapping[str, Any]) -> None:
        """A change."""
        key = row["key"]
        self.held_over.pop(key, None)
        if row["state"] == CACHED:
            self._write(Page.of(row))
        else:
            self._index.remove(key)

    def _write(self, page: Page) -> None:
        with self._contents.document(page.key, page) as document:
            if document is not None:
                fields = Fields.of(document)
                self._index.put(fields)
                if fields.fault:
                    self.unread += 1
                    self.fault = self.fault or f"{page.curl}: {fields.fault}"
                return
        self._index.remove(page.key)
        if page.key in self._contents.held_over:
            self._contents.held_over.remove(page.key)
            self.held_over[page.key] = page.pack()
