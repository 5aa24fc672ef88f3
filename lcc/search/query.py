"""The language of queries: ``words "a phrase" -not title:word site:domain host:host type:pdf lang:en since:2026-01``.

All of it must be true of a page.  What is meant is found wherever there is a sense in it: a quotation mark that is
not closed ends with the query, a prefix that is none is a word, signs are no words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lcc.domain.mimetypes import normalise_mimetype
from lcc.domain.registration.sites import host_of
from lcc.domain.urls import normalise
from lcc.errors import UrlError
from lcc.numbers import parse_number
from lcc.search.values import Clause, Kind, Order, Query

QUERY_CHARS_MAX = 1000
CLAUSES_MAX = 32
_PART = re.compile(r'\s*(-?)(?:([A-Za-z]+):)?(?:"([^"]*)(?:"|$)|([^\s"]+))')
_PREFIXES = {kind.value: kind for kind in Kind if kind.value.isalpha()}
_TYPES = {"html": "html", "htm": "html", "xhtml": "html", "pdf": "pdf", "text": "text", "txt": "text"}
_LANGUAGE = re.compile("[a-z]{2,3}").fullmatch
_AGO = re.compile("([1-9][0-9]{0,3})([hdwmy])").fullmatch
_DATE = re.compile("([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?").fullmatch
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
_AGO_MAX = _YEAR_MAX = 9999
_FIRST_SECOND = 0


class QueryError(ValueError):
    """A query that says nothing, or what cannot be understood.

    :ivar text: what is wrong, for who asked.
    :ivar at: where in the query; None: in all of it.
    """

    def __init__(self, text: str, at: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


def parse_query(text: str, order: str, now: float) -> Query:
    """The query that a text is.

    :param order: value of an :class:`~lcc.search.values.Order`; empty: by rank.
    :param now: seconds since 1970, for ``since:7d``.
    :raises QueryError: it is none.
    """
    try:
        wanted = Order(order or "rank")
    except ValueError:
        raise QueryError(f"order: {order[:40]!r} is not rank or date") from None
    if len(text) > QUERY_CHARS_MAX:
        raise QueryError(f"the query has {len(text):,} characters; {QUERY_CHARS_MAX:,} are allowed", QUERY_CHARS_MAX)
    text = unicodedata.normalize("NFC", re.sub("[\ud800-\udfff\0]", " ", text))
    clauses = tuple(_clauses(text, now))
    if len(clauses) > CLAUSES_MAX:
        raise QueryError(f"the query has {len(clauses)} parts; {CLAUSES_MAX} are allowed", clauses[CLAUSES_MAX].at)
    if not clauses:
        raise QueryError("there is no word in the query")
    if all(clause.negated for clause in clauses):
        raise QueryError("the query only leaves words out: say what to find, too", clauses[0].at)
    return Query(text, clauses, wanted)


def _clauses(text: str, now: float) -> Iterator[Clause]:
    at = 0
    while match := _PART.match(text, at):
        at = match.end()
        minus, prefix, phrase, word = match.groups()
        begin = match.start(1)
        place = match.span(4 if phrase is None else 3)
        kind = _PREFIXES.get((prefix or "").lower())
        if prefix and kind is None:
            # No prefix of ours: http://host, C:, a:b.
            word, phrase = f"{prefix}:{word if phrase is None else phrase}", None
            place = match.start(2), at
        said = (word if phrase is None else phrase).strip()
        if said.endswith(":") and (said[:-1].lower() in _PREFIXES):
            raise QueryError(f"{said} has nothing behind it", begin)
        if kind in (None, Kind.TITLE):
            if any(map(str.isalnum, said)):
                is_what = kind or (Kind.WORD if phrase is None else Kind.PHRASE)
                yield Clause(is_what, said, bool(minus), begin, 0, *place)
            elif kind is not None:
                raise QueryError("title: has no word behind it", begin)
        else:
            assert kind is not None
            yield _filter(kind, said, bool(minus), begin, now)


def _filter(kind: Kind, said: str, negated: bool, at: int, now: float) -> Clause:
    """A clause that is no text."""
    if kind is Kind.SINCE:
        return Clause(kind, said, negated, at, _since(said, at, now))
    checked = {Kind.SITE: _site, Kind.HOST: _host, Kind.TYPE: _type, Kind.LANGUAGE: _language}[kind]
    return Clause(kind, checked(said.lower(), at), negated, at)


def _site(said: str, at: int, prefix: str = "site") -> str:
    host = said.partition("://")[2] or said
    try:
        return host_of(normalise(f"http://{host.partition('/')[0].strip('.')}/"))
    except UrlError:
        raise QueryError(f"{prefix}: {said[:60]!r} is not a host, such as www.example.org", at) from None


def _host(said: str, at: int) -> str:
    """With its port, also one that is usual: then it is that of another scheme."""
    host, _, port = said.rpartition(":")
    if not (port.isascii() and port.isdigit()):
        return _site(said, at, "host")
    return f"{_site(host, at, 'host')}:{port}"


def _type(said: str, at: int) -> str:
    if said in _TYPES:
        return _TYPES[said]
    try:
        return normalise_mimetype(said)
    except UrlError:
        raise QueryError(f"type: {said[:60]!r} is not html, pdf, text, or a MIME type such as text/csv", at) from None


def _language(said: str, at: int) -> str:
    if not _LANGUAGE(said):
        raise QueryError(f"lang: {said[:60]!r} is not a language, such as en", at)
    return said


def _since(said: str, at: int, now: float) -> int:
    """Seconds since 1970."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if said in ("today", "yesterday"):
        return int((today - timedelta(days=said == "yesterday")).timestamp())
    if match := _AGO(said):
        return max(_FIRST_SECOND, int(now - parse_number(match[1], _AGO_MAX) * _DAYS[match[2]] * 86400))
    if match := _DATE(said):
        year, month, day = (parse_number(part or "1", _YEAR_MAX) for part in match.groups())
        try:
            return max(_FIRST_SECOND, int(datetime(year, month, day, tzinfo=UTC).timestamp()))
        except (ValueError, OverflowError):
            pass
    raise QueryError(
        f"since: {said[:60]!r} is not a date; use 2026, 2026-03, 2026-03-31, today, yesterday, "
        "or an age such as 7d (h, d, w, m, y)",
        at,
    )
