"""Questions in the body of a request, as JSON lines, and their answers as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lcc.client.blocking import NO_LCC, CacheError
from lcc.model.states import AnsweredUrl, AskedUrl, SiteRobots

URLS_MAX = 10_000
"""URLs, or sites, of one request."""
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def states_body(urls: Iterable[AskedUrl]) -> bytes:
    """The body of a request for ``/states``."""
    return _lines({"provider": pid, "curl": curl, "set": number} for pid, curl, number in urls)


def robots_body(origins: Iterable[str]) -> bytes:
    """The body of a request for ``/robots``."""
    return _lines({"origin": origin} for origin in origins)


def _lines(questions: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join([f"{_encode(question)}\n" for question in questions]).encode("utf-8", "replace")


def answered_url(asked: AskedUrl, row: Mapping[str, Any]) -> AnsweredUrl:
    """A line of the answer.

    :raises CacheError: it is none.
    """
    try:
        error = row["error"] or {"code": 0, "text": "", "time": 0}
        return AnsweredUrl(
            asked.pid,
            asked.curl,
            row["state"],
            row["key"] or "",
            row["mimetype"] or "",
            row["md5"] or "",
            row["change"] or 0,
            row["fetched_time"] or 0,
            row["confirmed_time"] or 0,
            error["code"],
            error["text"],
            error["time"],
        )
    except (KeyError, TypeError):
        raise CacheError(NO_LCC) from None


def site_robots(row: Mapping[str, Any]) -> SiteRobots:
    """A line of the answer.

    :raises CacheError: it is none.
    """
    try:
        checked = row["checked_time"] or 0
        said = row["origin"], row["allow"] or "", row["rules"] or "", checked, row["delay_seconds"] or 0.0
        return SiteRobots(*said, tuple((each["root"], each["provider"]) for each in row["providers"]))
    except (KeyError, TypeError):
        raise CacheError(NO_LCC) from None
