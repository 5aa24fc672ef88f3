"""The chain of filters that a link passes before it enters the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lcc.errors import ConfigError
from lcc.interfaces import IUrlFilter
from lcc.model.spider.candidates import Candidate, Facts, FilterRules, HostFacts, Refusal
from lcc.plugins import chosen, installed
from lcc.spider.filters import plugins

NO_FACTS = Facts(False, HostFacts(), {})
"""What filters are given that need none."""


class Step(NamedTuple):
    """What one filter says of a candidate.

    :ivar reason: why it does not pass; None: it passes.
    """

    filter: str
    summary: str
    reason: str | None


def installed_filters() -> dict[str, IUrlFilter]:
    """Every filter, by name.

    :raises ConfigError: two have one name.
    """
    return installed(IUrlFilter, plugins, "filter")


class FilterChain:
    """The filters of one crawl, in order.

    Most links are refused by what their URLs say: :meth:`screen` asks the filters before the first one that needs
    facts, so that the frontier is asked about the others only; :meth:`judge` asks the rest.

    :param names: ``[spider] filters``.
    :raises ConfigError: a filter does not exist, or the rules make no sense to one.
    """

    def __init__(self, rules: FilterRules, names: Sequence[str]) -> None:
        if not names:
            raise ConfigError(["spider.filters: there must be one at least"])
        self._filters = chosen(names, installed_filters(), "spider.filters", "filter")
        judges = [(each.name, each.build(rules)) for each in self._filters]
        first = next((index for index, each in enumerate(self._filters) if each.needs_facts), len(judges))
        self._screens, self._judges = judges[:first], judges[first:]

    def screen(self, candidate: Candidate) -> Refusal | None:
        """What the first filters say, which need no facts; None: it passes them."""
        for name, judge in self._screens:
            reason = judge(candidate, NO_FACTS)
            if reason is not None:
                return Refusal(name, reason)
        return None

    def judge(self, candidate: Candidate, facts: Facts) -> Refusal | None:
        """What the other filters say of a candidate that has passed the first ones; None: it passes them, too."""
        for name, judge in self._judges:
            reason = judge(candidate, facts)
            if reason is not None:
                return Refusal(name, reason)
        return None

    def explain(self, candidate: Candidate, facts: Facts) -> list[Step]:
        """What each filter says, for people."""
        reasons = [judge(candidate, facts) for _, judge in [*self._screens, *self._judges]]
        return [Step(each.name, each.summary, why) for each, why in zip(self._filters, reasons, strict=True)]
