"""What a content user asks for: one question, however it was asked (XML, HTTP, Python, command line).

As text a question is a list of names with values; :data:`FIELDS` are the names, the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs

from lcc.domain.mimetypes import MimePatterns
from lcc.domain.times import parse_time
from lcc.domain.urls import URL_CHARS, names_scheme, normalise
from lcc.errors import UrlError
from lcc.model import parse_source
from lcc.model.spider.crawls import BUCKETS
from lcc.numbers import parse_number
from lcc.storage.views.selected import Selection, Times

VALUES_MAX = 1000
"""Values of one question, all names together."""
PID_MAX = 2**31 - 1
SUBTYPE_CHARS = 1024
NUMBER_MAX = 2**63 - 1
T = TypeVar("T")
_is_key = re.compile(r"[0-9A-Fa-f]{40}", re.ASCII).fullmatch


class QueryError(Exception):
    """The question is invalid.

    :ivar faults: what is wrong with it, a line each, with the name it is wrong at.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


@attrs.frozen
class Query:
    """A parsed and checked question.

    :ivar since: a token: what changed since then, deletions included; "" or "0": everything, in the order of change,
        to go on from; "now": nothing, to go on from; None: what is there now, in the order of the keys.
    :ivar limit: at most so many rows; None: all.
    """

    selection: Selection = Selection()
    since: str | None = None
    limit: int | None = None

    def within(self, providers: frozenset[int] | None) -> Query:
        """The question, about what these have told; None: it is as it was."""
        return attrs.evolve(self, selection=self.selection.within(providers))


FIELDS: dict[str, str] = {
    "since": "token of an earlier answer: what changed since then, deletions included; 0: everything, to go on from; "
    "now: nothing, to go on from",
    "provider": "id of a provider (several: any of them)",
    "key": "key of a row (several: these rows); not with since",
    "mimetype": "type/subtype or type/* (several: any of them)",
    "prefix": "what the conceptual URL begins with",
    "subtype": "the subtype as the provider told it",
    "source": "who names it: told, pushed, listed, feed, link, polled (several: any); else all but polled",
    "fetched_from": "content fetched then or later: ISO 8601, or seconds since 1970",
    "fetched_before": "content fetched before then",
    "modified_from": "content modified then or later, by Last-Modified, else as told",
    "modified_before": "content modified before then",
    "buckets": "only hosts of these: numbers 0 to 63 and ranges, as 0-15 (several: any of them); a host, with its "
    "port if that is not the default, belongs to that of its CRC-32 modulo 64",
    "limit": "at most so many rows",
}
"""Name -> meaning."""
MULTIPLE = frozenset({"provider", "key", "mimetype", "source", "buckets"})
"""These may be given several times."""


def parse_query(pairs: Iterable[tuple[str, str]]) -> Query:
    """The question that these names and values ask.

    :raises QueryError: with everything that is wrong with it.
    """
    reader = _Reader()
    for index, (name, value) in enumerate(pairs):
        if index >= VALUES_MAX:
            reader.faults.append(f"more than {VALUES_MAX} values")
            break
        reader.take(name, value)
    return reader.query()


class _Reader:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self._values: dict[str, list[str]] = {}

    def take(self, name: str, value: str) -> None:
        if name not in FIELDS:
            self.faults.append(f"{name[:80]!r} is not known; there are {', '.join(FIELDS)}")
        elif name in self._values and name not in MULTIPLE:
            self.faults.append(f"{name}: given twice")
        else:
            self._values.setdefault(name, []).append(value)

    def query(self) -> Query:
        providers = [pid for pid in map(self._pid, self._values.get("provider", ())) if pid]
        selection = Selection(
            frozenset(providers) if "provider" in self._values else None,
            self._mimetypes(),
            self._one("prefix", _prefix, ""),
            self._one("subtype", _subtype, ""),
            self._times("fetched"),
            self._times("modified"),
            self._sources(),
            self._keys(),
            self._buckets(),
        )
        limit = self._one("limit", lambda text: _number(text, NUMBER_MAX), None)
        query = Query(selection, self._one("since", str, None), limit)
        if self.faults:
            raise QueryError(self.faults)
        return query

    def _one(self, name: str, read: Callable[[str], T], default: T) -> T:
        values = self._values.get(name)
        if values is None:
            return default
        try:
            return read(values[0])
        except (ValueError, UrlError) as error:
            self.faults.append(f"{name}: {error}")
            return default

    def _pid(self, text: str) -> int:
        try:
            return _number(text, PID_MAX)
        except ValueError as error:
            self.faults.append(f"provider: {error}")
            return 0

    def _keys(self) -> frozenset[bytes]:
        texts = self._values.get("key", ())
        if texts and "since" in self._values:
            self.faults.append("key: not with since")
        for text in texts:
            if not _is_key(text):
                self.faults.append(f"key: {text[:80]!r} is none: 40 hexadecimal digits")
                return frozenset()
        return frozenset(map(bytes.fromhex, texts))

    def _buckets(self) -> frozenset[int] | None:
        if "buckets" not in self._values:
            return None
        found: set[int] = set()
        for text in self._values["buckets"]:
            first, dash, last = text.partition("-")
            try:
                begin = parse_number(first, BUCKETS - 1)
                found.update(range(begin, (parse_number(last, BUCKETS - 1, begin) if dash else begin) + 1))
            except ValueError:
                self.faults.append(f"buckets: {text[:80]!r} is no number from 0 to {BUCKETS - 1}, and no range")
        return frozenset(found)

    def _mimetypes(self) -> tuple[str, ...]:
        try:
            patterns = MimePatterns(self._values.get("mimetype", ())).patterns
        except ValueError as error:
            self.faults.append(f"mimetype: {error}")
            return ()
        return () if "*/*" in patterns else tuple(sorted(set(patterns)))

    def _sources(self) -> int:
        sources = 0
        for text in self._values.get("source", ()):
            try:
                sources |= parse_source(text)
            except ValueError as error:
                self.faults.append(f"source: {error}")
        return int(sources)

    def _times(self, what: str) -> Times:
        return Times(self._one(f"{what}_from", parse_time, None), self._one(f"{what}_before", parse_time, None))


def _number(text: str, maximum: int) -> int:
    try:
        return parse_number(text, maximum, 1)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no whole number from 1 to {maximum}") from None


def _prefix(text: str) -> str:
    if len(text) > URL_CHARS:
        raise ValueError(f"longer than {URL_CHARS} characters")
    if not names_scheme(text):
        raise ValueError(f"{text[:80]!r} is not the beginning of a URL, such as http://www.example.org/docs/")
    return normalise(text)


def _subtype(text: str) -> str:
    if len(text) > SUBTYPE_CHARS:
        raise ValueError(f"longer than {SUBTYPE_CHARS} characters")
    return text
