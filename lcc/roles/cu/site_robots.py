"""``/robots``: what robots.txt of sites say.

A line of the question is ``{"origin": "scheme://host[:port]/"}``; the answer has a line for each, in their order.
What is not known of a provider's site yet, the scheduler is asked to poll.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from lcc.domain.urls import URL_CHARS, normalise, site_of
from lcc.errors import UrlError
from lcc.model.states import SiteRobots
from lcc.roles.cu.formats import JsonLines
from lcc.roles.cu.query import QueryError
from lcc.storage.database.transactions import Txn
from lcc.storage.tasks.polling.robots import read_robots

QUESTION = {"origin": "scheme://host[:port]/"}
ANSWER = {
    "origin": "as asked",
    "allow": "rules: what they say; all: everything; none: nothing, as it could not be read; null: not known (yet)",
    "rules": "the text of robots.txt; null: there is none",
    "checked_time": "when this was found out; seconds since 1970",
    "delay_seconds": "that it asks for between fetches; 0: none",
    "providers": "those with a root there: a URL is that of the first one with a root that it lies in",
}


Roots = Mapping[str, Sequence[tuple[str, int]]]
"""By site: roots and their providers, in the order in which they count."""


class AskedSite(NamedTuple):
    """A line of the question.

    :ivar written: the site, as it was written.
    :ivar site: ``scheme://host[:port]/``, normal.
    """

    written: str
    site: str


def parse_sites(questions: Sequence[Any]) -> list[AskedSite]:
    """The sites that are asked for.

    :raises QueryError: one is none.
    """
    sites = []
    for number, question in enumerate(questions, 1):
        origin = question.get("origin")
        try:
            if question.keys() != QUESTION.keys() or not isinstance(origin, str) or len(origin) > URL_CHARS:
                raise UrlError("bad-url", f"there is origin, of at most {URL_CHARS} characters, and nothing else")
            site = site_of(normalise(origin))
        except UrlError as error:
            raise QueryError([f"line {number}: {error}"]) from None
        sites.append(AskedSite(origin, site))
    return sites


def robots_lines(
    txn: Txn, asked: Sequence[AskedSite], visible: Collection[str], roots: Roots
) -> tuple[list[bytes], set[str]]:
    """A line of the answer for each of these, and the visible sites that nobody polls.

    :param visible: the sites that are told of.
    """
    known = read_robots(txn, sorted(visible))
    lines = [robots_line(each, known.get(each.site), roots) for each in asked]
    return lines, set(visible) - known.keys()


def robots_line(asked: AskedSite, known: SiteRobots | None, roots: Roots) -> bytes:
    """A line of the answer, as ``ANSWER`` has it."""
    found = known or SiteRobots(asked.site)
    answer = {
        "origin": asked.written,
        "allow": found.allow or None,
        "rules": found.rules or None,
        "checked_time": found.checked_time or None,
        "delay_seconds": found.delay_seconds,
        "providers": [{"root": root, "provider": pid} for root, pid in roots.get(asked.site, ())],
    }
    return JsonLines().rows([answer])
