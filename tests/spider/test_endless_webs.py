"""Webs without end that are seen in no URL: redirects from host to host, and hosts without number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import fail

from lcc.domain.urls import redirect_outside, redirected_to
from lcc.errors import code
from lcc.roles.notifier import NotifierRefused
from lcc.roles.spider.reading import REDIRECTS_MAX
from tests.support.roles.spider import SpiderWorld

ONE, TWO = "http://one.example/", "http://two.example/"
SCOPE = r"http://([a-z]+\.)+example/"


class Endless(dict[str, Any]):
    """What is answered of any URL.

    :param made: URL -> the answer, or None.
    """

    def __init__(self, made: Callable[[str], Any]) -> None:
        super().__init__()
        self._made = made

    def __contains__(self, url: object) -> bool:
        return self._made(str(url)) is not None

    def __getitem__(self, url: str) -> Any:
        return self._made(url)

    def get(self, url: str, default: Any = None) -> Any:
        return self._made(url) or default


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SpiderWorld]:
    made = SpiderWorld(tmp_path, {})
    yield made
    made.close()


def test_redirects_from_host_to_host_end(world: SpiderWorld) -> None:
    def elsewhere(url: str) -> str | None:
        found = re.fullmatch(r"http://(one|two)\.example/r(\d+)", url)
        return found and f"{TWO if found[1] == 'one' else ONE}r{int(found[2]) + 1}"

    world.lcc.sites[ONE] = b"<a href=/r0>x</a>"
    world.lcc.redirects = Endless(elsewhere)
    world.start()
    world.add("all", ONE, restrict_to=SCOPE)
    world.settle("all")
    assert world.lcc.fetched[1:] == [f"{(ONE, TWO)[number % 2]}r{number}" for number in range(REDIRECTS_MAX + 1)]
    assert world.status("all").dropped == {"redirects": 1}


def test_redirects_that_fan_out_under_growing_paths_end(world: SpiderWorld) -> None:
    """Each page links to redirects, each of which leads to the same page of the other host, deeper."""

    def elsewhere(url: str) -> str | None:
        found = re.fullmatch(r"http://(one|two)\.example/(.*)r(\d)", url)
        return found and f"{TWO if found[1] == 'one' else ONE}{found[2]}{found[3]}/"

    world.lcc.sites = Endless(lambda url: b"<a href=r0>x</a><a href=r1>y</a>" if url.endswith("/") else None)
    world.lcc.redirects = Endless(elsewhere)
    world.start()
    world.add("all", ONE, restrict_to=SCOPE)
    world.settle("all")
    assert len(world.lcc.fetched) == len({*world.lcc.fetched}) < 300
    assert world.status("all").dropped["traps"]


def test_hosts_without_number_are_bounded(world: SpiderWorld, logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wildcard DNS: a.b.c.evil.example, each with the same page, and links to further ones."""

    def limited(root: str, **given: Any) -> Any:
        if len(world.lcc.providers) > 30:
            return fail(NotifierRefused(code("limit"), "30 providers of evil.example are watched since an hour"))
        return watch(root, **given)

    watch = world.lcc.watch
    monkeypatch.setattr(world.lcc, "watch", limited)
    start = "http://evil.example/"

    def page(url: str) -> bytes:
        return b"".join(b"<a href=http://%c.%s>x</a>" % (letter, url[7:].encode()) for letter in b"abcd")

    world.lcc.sites = Endless(page)
    world.start()
    world.add("all", start, restrict_to=SCOPE)
    world.settle("all")
    status = world.status("all")
    assert len(world.lcc.fetched) == status.counts["cached"] == 31
    assert status.counts["hosts"] < 31 * 5 and status.counts["parked"] == status.counts["hosts"] - 31
    refused = [event for event in logged if "makes no provider" in event.get("log_format", "")]
    assert 0 < len(refused) < 10, "hosts that are refused for one reason are told of together"


def test_where_a_redirect_leads_is_told_by_its_error() -> None:
    error = redirect_outside("http://two.example/a?b")
    assert (error.code, redirected_to(error.text)) == (code("redirect-outside"), "http://two.example/a?b")
    assert redirected_to(redirect_outside("http://h/" + "x" * 600).text) is None, "it was cut"
    for text in ("", "http://h/", error.entry.text, f"{error.entry.text}: x"):
        assert redirected_to(text) is None
