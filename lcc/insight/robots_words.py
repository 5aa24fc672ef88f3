"""What robots.txt of a watched provider's site asks for, and what of it is obeyed, in words."""

from __future__ import annotations

from collections.abc import Iterator

from lcc.domain.fetches.robots_rules import RULES, crawl_delay_seconds, visit_hours, visit_time
from lcc.model import Provider
from lcc.model.states import SiteRobots
from lcc.storage.providers.watched import BY_OPERATOR, CRAWL_DELAY_MAX


def robots_words(provider: Provider, known: SiteRobots | None, slot_seconds: int) -> Iterator[str]:
    """What is asked for, each with what becomes of it; nothing, where nothing is.

    :param known: of its site; None: its robots.txt is not polled.
    :param slot_seconds: length of a slot of hours.
    """
    if known is None or known.allow != RULES:
        return
    delay, visit = crawl_delay_seconds(known.rules), visit_time(known.rules)
    if delay:
        yield f"asks for {delay:.15g} s between fetches{_of_delay(provider, delay)}"
    if visit:
        yield f"asks for visits at {visit} UTC{_of_visit(provider, visit_hours(known.rules, slot_seconds), visit)}"


def _of_delay(provider: Provider, delay: float) -> str:
    if provider.interval_by == BY_OPERATOR:
        return ": the operator's interval holds"
    return f": at most {CRAWL_DELAY_MAX:g} are obeyed" if delay > CRAWL_DELAY_MAX else ""


def _of_visit(provider: Provider, hours: str, visit: str) -> str:
    if provider.hours_by == BY_OPERATOR:
        return ": the operator's hours hold"
    if hours:
        return f": hours {hours}"
    if visit[:2] == "00" and visit[5:] in ("2359", "0000"):
        return ": always"
    pid = provider.pid
    then = f"Next: lcc-admin provider set {pid} --hours HOURS"
    return f": no whole slot is within, so it is not obeyed; {then}"


__all__ = ["robots_words"]
