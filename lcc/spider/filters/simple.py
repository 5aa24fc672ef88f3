"""Filters of one look: at the URL, the crawl's rules, or what is known of the host."""

from __future__ import annotations

import re
from collections.abc import Callable

from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.domain.fetches.robots_rules import RULES, is_allowed
from lcc.domain.urls import Roots
from lcc.interfaces import IUrlFilter
from lcc.model.spider.candidates import Candidate, Facts, FilterRules
from lcc.spider.names.scope import Scope

Judge = Callable[[Candidate, Facts], str | None]

_KNOWN_PATHS = re.compile(
    # Apache's, lighttpd's and nginx's folders, sorted in other ways; and as they were in LARM's days.
    r"/\?(?:C=[A-Z](?:[;&]O=[AD])?|[NMSD]=[AD])$"
    # It is the scheduler that reads it.
    r"|://[^/]*/robots\.txt$"
    # WordPress: the page once more, for each of its comments.
    r"|[?&]replytocom=[0-9]+(?:&|$)"
).search


@implementer(IPlugin, IUrlFilter)
class LengthFilter:
    """LARM's URLLengthFilter."""

    name = "length"
    summary = "URLs that are too long"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        longest = rules.url_chars

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            chars = len(candidate.names.furl)
            return f"{chars} characters" if chars > longest else None

        return judge


@implementer(IPlugin, IUrlFilter)
class SchemeFilter:
    """What the robots can fetch."""

    name = "scheme"
    summary = "URLs of other schemes"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        starts = tuple(f"{scheme}://" for scheme in rules.schemes)

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            furl = candidate.names.furl
            return None if furl.startswith(starts) else f"the scheme {furl.partition(':')[0]}"

        return judge


@implementer(IPlugin, IUrlFilter)
class ScopeFilter:
    """LARM's URLScopeFilter (``-restrictto``)."""

    name = "scope"
    summary = "URLs outside of the crawl's expression or roots"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        scope = Scope(rules.scope) if rules.scope else None
        roots = Roots(rules.roots) if rules.roots else None

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            if roots is not None and not roots.contains(candidate.names.furl):
                return "outside of the provider's roots"
            if scope is None or scope.contains(candidate.names.curl):
                return None
            if scope.is_exhausted:
                return "the expression took too long too often"
            return "the expression does not match"

        return judge


@implementer(IPlugin, IUrlFilter)
class KnownPathsFilter:
    """LARM's KnownPathsFilter."""

    name = "known-paths"
    summary = "views of folders, and what the configuration names"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        configured = [Scope(expression, anywhere=True) for expression in rules.known_paths]

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            furl = candidate.names.furl
            if ("=" in furl or furl.endswith("/robots.txt")) and _KNOWN_PATHS(furl):  # most have neither
                return "a view of a folder, or another path that is known to be useless"
            for expression in configured:
                if expression.contains(furl):
                    return f"it matches {expression.expression[:80]!r}"
            return None

        return judge


@implementer(IPlugin, IUrlFilter)
class NofollowFilter:
    """What pages ask for by nofollow."""

    name = "nofollow"
    summary = "links that their pages ask not to follow"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        return lambda candidate, facts: "nofollow" if candidate.nofollow else None


@implementer(IPlugin, IUrlFilter)
class DepthFilter:
    """How far a crawl goes."""

    name = "depth"
    summary = "URLs too many links away from a start"
    needs_facts = False

    def build(self, rules: FilterRules) -> Judge:
        deepest = rules.depth_max

        def judge(candidate: Candidate, facts: Facts) -> str | None:
            if deepest is None or candidate.depth <= deepest:
                return None
            return f"{candidate.depth} links from a start"

        return judge


@implementer(IPlugin, IUrlFilter)
class HostFilter:
    """Hosts that an operator has excluded (LARM: "hosts known to make problems")."""

    name = "hosts"
    summary = "hosts that were excluded"
    needs_facts = True

    def build(self, rules: FilterRules) -> Judge:
        return lambda candidate, facts: f"{candidate.names.host} is excluded" if facts.host.excluded else None


@implementer(IPlugin, IUrlFilter)
class RobotsFilter:
    """LARM's RobotExclusionFilter.

    A host whose robots.txt is not known, or cannot be read, refuses nothing here: its URLs wait in the frontier.
    """

    name = "robots"
    summary = "URLs that robots.txt disallows"
    needs_facts = True

    def build(self, rules: FilterRules) -> Judge:
        def judge(candidate: Candidate, facts: Facts) -> str | None:
            host = facts.host
            if facts.known or host.robots_allow != RULES:
                return None
            return None if is_allowed(host.robots_rules, RULES, candidate.names.furl) else "disallowed by robots.txt"

        return judge


@implementer(IPlugin, IUrlFilter)
class VisitedFilter:
    """LARM's URLVisitedFilter."""

    name = "visited"
    summary = "URLs that the frontier has already"
    needs_facts = True

    def build(self, rules: FilterRules) -> Judge:
        return lambda candidate, facts: "known already" if facts.known else None
