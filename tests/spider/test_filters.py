"""The chain of filters: each of them, their order, plugins, and what is told of a refusal."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from lcc.config import SpiderConfig
from lcc.domain.fetches.robots_rules import ALL, NONE, RULES
from lcc.errors import ConfigError
from lcc.model.spider.candidates import Candidate, Facts, FilterRules, HostFacts, Refusal
from lcc.model.spider.crawls import CrawlSettings
from lcc.spider.crawl_inputs import filters_of
from lcc.spider.filters.chain import FilterChain, installed_filters
from lcc.spider.names import UrlNames
from tests.support.documents import ROOT, fences_of

DEFAULT = SpiderConfig().filters
NEW = Facts(False, HostFacts(), {})


def candidate(url: str, depth: int = 1, **more: object) -> Candidate:
    return Candidate(UrlNames().names(url), depth, **more)  # type: ignore[arg-type]


def refusal(rules: FilterRules, found: Candidate, facts: Facts = NEW) -> Refusal | None:
    chain = FilterChain(rules, DEFAULT)
    return chain.screen(found) or chain.judge(found, facts)


def name_of(rules: FilterRules, found: Candidate, facts: Facts = NEW) -> str | None:
    refused = refusal(rules, found, facts)
    return refused.filter if refused else None


def test_the_default_filters_are_those_that_come_with_the_lcc() -> None:
    assert {*DEFAULT} == {*installed_filters()}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h.example.org/", None),
        ("http://h.example.org/" + "a" * 5000, "length"),
        ("gopher://h.example.org/", "scheme"),
        ("http://elsewhere.org/", "scope"),
        ("http://h.example.org/dir/?C=N;O=D", "known-paths"),
        ("http://h.example.org/dir/?C=M&O=A", "known-paths"),
        ("http://h.example.org/dir/?N=D", "known-paths"),
        ("http://h.example.org/dir/?S=A", "known-paths"),
        ("http://h.example.org/robots.txt", "known-paths"),
        ("http://h.example.org/post?replytocom=17", "known-paths"),
        ("http://h.example.org/print/x", "known-paths"),
        ("http://h.example.org/?N=Dora", None),
        ("http://h.example.org/dir/robots.txt", None),
    ],
)
def test_what_a_url_says(url: str, name: str | None) -> None:
    rules = FilterRules(scope=r"(http|gopher)://h\.example\.org/", known_paths=("/print/",))
    assert name_of(rules, candidate(url)) == name


def test_what_its_page_says() -> None:
    rules = FilterRules(depth_max=3)
    assert name_of(rules, candidate("http://h/", 3)) is None
    assert refusal(rules, candidate("http://h/", 4)) == ("depth", "4 links from a start")
    assert refusal(rules, candidate("http://h/", 4, nofollow=True)) == ("nofollow", "nofollow")


def test_what_the_frontier_says() -> None:
    rules = FilterRules()
    found = candidate("http://h/private/x")
    disallow = "User-agent: *\nDisallow: /private/"
    assert refusal(rules, found, NEW._replace(known=True)) == ("visited", "known already")
    excluded = NEW._replace(host=HostFacts(excluded=True))
    assert refusal(rules, found, excluded) == ("hosts", "h is excluded")
    ruled = NEW._replace(host=HostFacts(robots_allow=RULES, robots_rules=disallow))
    assert refusal(rules, found, ruled) == ("robots", "disallowed by robots.txt")
    assert refusal(rules, candidate("http://h/public"), ruled) is None


def test_a_robots_txt_that_cannot_be_read_loses_nothing() -> None:
    for allow in ("", ALL, NONE):
        assert (
            refusal(FilterRules(), candidate("http://h/x"), NEW._replace(host=HostFacts(robots_allow=allow))) is None
        )


def test_the_scope_is_held_to_the_name_that_compares() -> None:
    names = UrlNames("larm").names("http://h/DOCS/Index.html")
    assert name_of(FilterRules(scope="http://h/docs/$"), Candidate(names, 0)) is None


def test_roots_are_those_of_a_provider() -> None:
    rules = FilterRules(roots=("http://h/a/",))
    assert name_of(rules, candidate("https://h/a/b")) is None
    assert refusal(rules, candidate("http://h/b")) == ("scope", "outside of the provider's roots")


def test_filters_that_need_no_look_up_are_asked_first() -> None:
    chain = FilterChain(FilterRules(scope="http://h/", depth_max=1), ("scope", "depth", "visited", "length"))
    assert chain.screen(candidate("http://g/")) == ("scope", "the expression does not match")
    assert chain.screen(candidate("http://h/", 2)) == ("depth", "2 links from a start")
    # Behind a filter that needs facts, in the order of the configuration.
    long = candidate("http://h/" + "a" * 5000)
    assert chain.screen(long) is None
    assert chain.judge(long, NEW._replace(known=True)) == ("visited", "known already")
    assert chain.judge(long, NEW) == ("length", "5009 characters")


def test_all_filters_explain_themselves() -> None:
    chain = FilterChain(FilterRules(scope="http://h/"), ("scope", "length", "visited"))
    steps = chain.explain(candidate("http://g/"), NEW._replace(known=True))
    assert [(step.filter, step.reason) for step in steps] == [
        ("scope", "the expression does not match"),
        ("length", None),
        ("visited", "known already"),
    ]
    assert all(step.summary for step in steps)


def test_bad_rules_are_told_when_a_crawl_is_configured() -> None:
    for rules, names in (
        (FilterRules(scope="("), ("scope",)),
        (FilterRules(known_paths=("(",)), ("known-paths",)),
        (FilterRules(), ("no such",)),
        (FilterRules(), ()),
    ):
        with pytest.raises(ConfigError):
            FilterChain(rules, names)


def test_a_filter_of_ones_own_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [plugin] = [
        text for _, kind, text in fences_of(ROOT / "doc" / "spider.md") if kind == "python" and "IUrlFilter" in text
    ]
    folder = tmp_path / "lcc" / "spider" / "filters" / "plugins"
    folder.mkdir(parents=True)
    (folder / "site_no_pictures.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("lcc.spider.filters.plugins")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    try:
        chain = FilterChain(FilterRules(), ("length", "no-pictures"))
        assert chain.screen(candidate("http://h/x.gif")) == ("no-pictures", "a picture")
    finally:
        sys.modules.pop("lcc.spider.filters.plugins.site_no_pictures", None)


def test_limits_of_traps_and_known_paths_are_settings() -> None:
    for config, refused in (
        (SpiderConfig(), []),
        (SpiderConfig(trap_segments=2), ["traps"]),
        (SpiderConfig(known_paths=("/b/",)), ["known-paths"]),
    ):
        chain = filters_of(CrawlSettings(restrict_to="http://h/"), config, 0)
        assert [step.filter for step in chain.explain(candidate("http://h/a/b/c"), NEW) if step.reason] == refused
