"""What robots.txt allows (RFC 9309), of hints: what a site told, pushed or listed itself is not asked for.

A site without a robots.txt (4xx) allows everything; one whose robots.txt cannot be read now (5xx, 429, no answer)
allows nothing for now: its hints wait (:mod:`lcc.storage.tasks.polling.robots`).
"""

from __future__ import annotations

import re
from datetime import time
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protego import Protego

RULES, ALL, NONE = "rules", "all", "none"
"""Values of the column ``allow`` of the table ``robots``."""
AGENT = "LCC"
"""The name by which robots.txt may speak to this robot."""
WILDCARDS_MAX = 2_000
"""With more ``*`` a robots.txt allows nothing.  Each is searched for in each URL while the scheduler writes
nothing else: 30,000 would take 0.3 seconds for one of 4 kB."""
_NAMES_ROBOT = re.compile(r"(\s*user[- ]?agent(?:\s*:\s*|\s+))(\*(?=\s|#|$)|[a-z_-]*)", re.IGNORECASE).match
_ANOTHER = "another"
_SHORT_CHARS_MAX = 10_000
_TOO_MANY = 429
_HOUR_SECONDS = 3600
_LAST_MINUTE = time(23, 59)


def allow_for(status: int) -> str:
    """What an error allows that came in place of robots.txt.

    :param status: of HTTP, or another code of an error of a fetch.
    """
    return ALL if 400 <= status < 500 and status != _TOO_MANY else NONE


def is_allowed(rules: str, allow: str, url: str) -> bool:
    """Whether a URL may be fetched.

    :param rules: the text of robots.txt.
    :param allow: :data:`RULES`, :data:`ALL` or :data:`NONE`.
    """
    if allow != RULES:
        return allow == ALL
    return rules.count("*") <= WILDCARDS_MAX and _parsed(rules).can_fetch(url, AGENT)


def crawl_delay_seconds(rules: str) -> float:
    """The time between fetches that a robots.txt asks for (Crawl-delay, Request-rate); 0: none."""
    parsed = _parsed(rules)
    rate = parsed.request_rate(AGENT)
    asked = [parsed.crawl_delay(AGENT) or 0.0]
    if rate is not None and rate.requests > 0:
        try:
            asked.append(rate.seconds / rate.requests)
        except OverflowError:
            pass  # hundreds of digits: as good as for ever, which nobody can mean
    return max([seconds for seconds in asked if 0 < seconds < inf], default=0.0)


def visit_time(rules: str) -> str:
    """The time of day (UTC) in which a robots.txt wants visits (Visit-time), as ``0600-0845``; empty: any."""
    asked = _parsed(rules).visit_time(AGENT)
    return "" if asked is None else f"{asked.start_time:%H%M}-{asked.end_time:%H%M}"


def visit_hours(rules: str, slot_seconds: int = _HOUR_SECONDS) -> str:
    """The slots that lie wholly within this time, as :func:`lcc.domain.fetches.hours.parse_hours` reads them; empty:
    all, or none (no whole slot lies within, or slots are no hours): then it cannot be obeyed.

    :param slot_seconds: length of a slot.
    """
    asked = _parsed(rules).visit_time(AGENT)
    if asked is None or slot_seconds != _HOUR_SECONDS:
        return ""
    first = -(-_minutes(asked.start_time) // 60)
    end = 24 if asked.end_time == _LAST_MINUTE else _minutes(asked.end_time) // 60
    if asked.end_time < asked.start_time:
        end += 24
    if end <= first or end - first >= 24:
        return ""
    return f"{first % 24}-{end % 24 or 24}"


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute


def sitemaps_named(rules: str) -> list[str]:
    """The URLs of the sitemaps that a robots.txt names, as it writes them."""
    return list(dict.fromkeys(_parsed(rules).sitemaps))


def _parsed(rules: str) -> Protego:
    return (_parsed_short if len(rules) <= _SHORT_CHARS_MAX else _parsed_long)(rules)


def _parse(rules: str) -> Protego:
    # Late: most schedulers read none for long.
    from protego import Protego

    return Protego.parse("\n".join(map(_with_token, rules.splitlines())))


# What is parsed takes twenty times the memory of its text, and a robots.txt may have 500 KiB.
_parsed_short = lru_cache(maxsize=100)(_parse)
_parsed_long = lru_cache(maxsize=4)(_parse)


def _with_token(line: str) -> str:
    """Of a line that names a robot only its product token: protego takes ``LC`` for this robot, too, and ``LCC/1.0``
    for another one."""
    named = _NAMES_ROBOT(line)
    if named is None or named[2] == "*":
        return line
    return named[1] + (AGENT if named[2].lower() == AGENT.lower() else _ANOTHER)
