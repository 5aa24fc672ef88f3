"""Traps: endless URLs that a site makes of few pages.

Some are seen in a URL alone: a path of too many segments, segments that follow each other again and again, too many
parameters, a date far ahead.  Others are seen in how many URLs of a host are like it: a page under another session's
id, a calendar, combinations of facets.  For these, a URL has *keys* (:func:`trap_keys`): the frontier counts the URLs
that it has accepted for each, and a URL whose keys of a kind all have too many is refused.  What the frontier knows
already is never refused here: it was no trap when it came.

Facets are told from pages that have parameters for names (``?option=com_content&view=article&id=123``) by the values:
where filters are combined, each value has stood in many URLs before; the name of a page has not.

The same content under growing paths is seen when it is read: :func:`copies_key`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.interfaces import IUrlFilter
from lcc.model.spider.candidates import Candidate, Facts, FilterRules, TrapLimits

KEY_BYTES = 8
FACETS_FROM = 3
"""Parameters from which on a URL may be a combination."""
FACETS_KEYS_MAX = 16
"""Of the parameters of a URL: so many are counted."""
AGAIN_MAX = 3
"""Segments of a path that may stand in it before, numbers aside (a folder that has itself in it)."""
_GROUP_MAX = 5
_COPIES_FROM_SEGMENTS = 5
_PARAMETERS = re.compile(r"[&;]")
_DIGITS = re.compile(r"[0-9]+")
_SHORT_NUMBER = re.compile(r"[0-9]{1,4}").fullmatch
_YEAR = r"(?<![0-9])(1[5-9][0-9]{2}|[2-9][0-9]{3})"
_DATE = re.compile(rf"{_YEAR}[-/._](?:W|w|)[0-9]{{1,2}}(?![0-9])")
_DATE_ENDS_PATH = re.compile(rf"/(?:[^/]*[^/0-9])?{_YEAR}(?:[-/._][Ww]?[0-9]{{1,2}}){{1,2}}/?$")
_YEAR_VALUE = re.compile(rf"{_YEAR}(?![0-9])")
_YEAR_NAMES = frozenset({"year", "y", "jahr", "annee", "anno"})
_CALENDAR_NAMES = _YEAR_NAMES | {
    "month",
    "day",
    "date",
    "week",
    "cal",
    "m",
    "d",
    "ym",
    "ymd",
    "monat",
    "tag",
    "datum",
}
_SESSION_NAME = re.compile(
    r"(?:php|j)sessid|jsessionid|sess(?:ion)?_?id|oscsid|zenid|xtcsid|cfid|cftoken|aspsessionid[a-z]{8}",
    re.IGNORECASE,
).fullmatch
_MAYBE_SESSION_NAME = re.compile(r"sid|s|sess|session", re.IGNORECASE).fullmatch
_RANDOM_VALUE = re.compile(r"(?=.{0,4095}[0-9])(?=.{0,4095}[A-Za-z])[A-Za-z0-9!._,~-]{8,}").fullmatch
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/;?]*|/\([A-Z]\([a-z0-9]{24}\)\)", re.IGNORECASE)


class TrapKey(NamedTuple):
    """A kind of trap, and what its URLs have in common.

    :ivar kind: an attribute of :class:`~lcc.model.spider.candidates.TrapLimits`.
    """

    kind: str
    key: bytes


def trap_keys(curl: str) -> tuple[TrapKey, ...]:
    """What of a URL is counted for its host; most URLs have nothing."""
    path, mark, query = curl.partition("?")
    session_path = _SESSION_IN_PATH.sub("", path) if ";" in path or "/(" in path else path
    parameters = _PARAMETERS.split(query) if mark else []
    kept = [each for each in parameters if not _is_session(each)]
    keys: list[TrapKey] = []
    if session_path != path or len(kept) != len(parameters):
        keys.append(_key("sessions", f"{session_path}?{'&'.join(kept)}"))
    if _date_of(path, kept) is not None:
        keys.append(_key("calendar", _DIGITS.sub("0", f"{session_path}?{'&'.join(kept)}")))
    elif len(values := dict.fromkeys(kept)) >= FACETS_FROM:
        keys += [_key("facets", f"{session_path}?{value}") for value in islice(values, FACETS_KEYS_MAX)]
    return tuple(keys)


def copies_key(curl: str, md5: str) -> bytes | None:
    """What counts the pages with a content, for a page that may be one of many copies: deep in a path, or with a
    query; None: it is not counted.

    Whoever has read a page with another content than before adds 1.

    :param md5: of the content.
    """
    if "?" not in curl and curl.count("/") - 2 < _COPIES_FROM_SEGMENTS:
        return None
    return _key("copies", md5).key


def _key(kind: str, pattern: str) -> TrapKey:
    return TrapKey(
        kind, blake2b(f"{kind} {pattern}".encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
    )


def _is_session(parameter: str) -> bool:
    name, mark, value = parameter.partition("=")
    if not mark or not value:
        return False
    if _SESSION_NAME(name):
        return True
    return _MAYBE_SESSION_NAME(name) is not None and _RANDOM_VALUE(value) is not None


def _date_of(path: str, parameters: Sequence[str]) -> int | None:
    """The year of a page of a calendar; 0: it has a date without a year; None: it has none.

    A date within a path is that of an article; one that ends it is that of a calendar.
    """
    match = _DATE_ENDS_PATH.search(path, path.find("/", 8))
    found = int(match[1]) if match else None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        date = _DATE.search(value)
        if date is None and name.lower() in _CALENDAR_NAMES and _DIGITS.search(value):
            found = found or 0
            date = _YEAR_VALUE.fullmatch(value) if name.lower() in _YEAR_NAMES else None
        if date is not None:
            found = max(found or 0, int(date[1]))
    return found


def endless(curl: str, limits: TrapLimits, year: int) -> str | None:
    """Why a URL is a trap as it stands, or None.

    :param year: now.
    """
    path, mark, query = curl.partition("?")
    segments = path.split("/")[3:]
    if limits.segments and len(segments) > limits.segments:
        return f"a path of {len(segments)} segments"
    if limits.repeats and len(segments) > limits.repeats and len(set(segments)) != len(segments):
        repeated = _repeated(segments, limits.repeats)
        if repeated:
            return f"the path repeats {repeated[:60]!r}"
    parameters = _PARAMETERS.split(query) if mark else []
    if limits.parameters and len(parameters) > limits.parameters:
        return f"{len(parameters)} parameters"
    if limits.years_ahead and year:
        found = _date_of(path, parameters)
        if found is not None and found > year + limits.years_ahead:
            return f"a calendar: the year {found}"
    return None


def _repeated(segments: Sequence[str], repeats: int) -> str | None:
    """One to five segments that follow themselves too often, or the last of too many that were there before."""
    segments = [segment for segment in segments if segment]
    for size in range(1, _GROUP_MAX + 1):
        equal = 0
        for index in range(size, len(segments)):
            equal = equal + 1 if segments[index] == segments[index - size] else 0
            if equal == repeats * size:
                group = segments[index - size + 1 : index + 1]
                if not all(map(_SHORT_NUMBER, group)):
                    return "/".join(group)
    before: set[str] = set()
    again = 0
    for segment in segments:
        again += segment in before and not _SHORT_NUMBER(segment)
        if again > AGAIN_MAX:
            return segment
        before.add(segment)
    return None


_WORDS = {
    "sessions": "the page of another session's id",
    "calendar": "a calendar with {limit} known pages",
    "facets": "a combination of parameters, of which each is in {limit} known URLs of the path",
}


@implementer(IPlugin, IUrlFilter)
class TrapFilter:
    """Refuses what is endless."""

    name = "traps"
    summary = "endless paths, calendars, sessions and facets"
    needs_facts = True

    def build(self, rules: FilterRules) -> Callable[[Candidate, Facts], str | None]:
        limits, year = rules.traps, rules.year
        limit_of = {kind: int(getattr(limits, kind)) for kind in _WORDS}

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            if facts.known:
                return None
            if 0 < limits.copies <= candidate.copies:
                return f"on a page with the content of {candidate.copies} others"
            curl = candidate.names.curl
            why = endless(curl, limits, year)
            if why is not None:
                return why
            for kind, keys in groupby(trap_keys(curl), key=attrgetter("kind")):
                limit = limit_of[kind]
                if limit and all(facts.traps.get(key, 0) >= limit for _, key in keys):
                    return _WORDS[kind].format(limit=limit)
            return None

        return judge
