"""``/robots``: what robots.txt of sites say.

A line of the question is ``{"origin": "scheme://host[:port]/"}``; the answer has a line for each, in their order.
What is not known of a provider's site yet, the scheduler is asked to poll.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcc.domain.urls import URL_CHARS, normalise, site_of
from lcc.errors import UrlError
from lcc.model.states import SiteRobots
from lcc.roles.cu.query import QueryError

QUESTION = {"origin": "scheme://host[:port]/"}
ANSWER = {
    "origin": "as asked",
    "allow": "rules: what they say; all: everything; none: nothing, as it could not be read; null: not known (yet)",
    "rules": "the text of robots.txt; null: there is none",
    "checked_time": "when this was found out; seconds since 1970",
    "delay_seconds": "that it asks for between fetches; 0: none",
    "providers": "those with a root there: a URL is that of the first one with a root that it lies in",
}


def parse_origins(questions: Sequence[Any]) -> list[str]:
    """The sites that are asked for, normal.

    :raises QueryError: one is none.
    """
    origins = []
    for number, question in enumerate(questions, 1):
        origin = question.get("origin")
        try:
            if question.keys() != QUESTION.keys() or not isinstance(origin, str) or len(origin) > URL_CHARS:
                raise UrlError("bad-url", f"there is origin, of at most {URL_CHARS} characters, and nothing else")
            site = site_of(normalise(origin))
        except UrlError as error:
            raise QueryError([f"line {number}: {error}"]) from None
        origins.append(site)
    return origins


def robots_answer(asked: str, known: SiteRobots | None, roots: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """A line of the answer, as ``ANSWER`` has it.

    :param asked: the site, as it was written.
    :param roots: root and provider.
    """
    found = known or SiteRobots(asked)
    return {
        "origin": asked,
        "allow": found.allow or None,
        "rules": found.rules or None,
        "checked_time": found.checked_time or None,
        "delay_seconds": found.delay_seconds,
        "providers": [{"root": root, "provider": pid} for root, pid in roots],
    }
