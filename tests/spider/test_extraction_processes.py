"""Extraction in real processes: their limits hold, whatever a page does to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from lcc.model.spider.links import ExtractionLimits, PageLinks
from lcc.roles.extraction import ExtractionPool, spawn_by
from tests.support.pages import page
from tests.support.pdf import pdf_with_links

PLUGIN = """
import os, resource, signal, time
from twisted.plugin import IPlugin
from zope.interface import implementer
from lcc.interfaces import ILinkExtractor

@implementer(IPlugin, ILinkExtractor)
class Hostile:
    name = "hostile"
    mimetypes = ("text/x-hostile",)

    def extract(self, content, found):
        word, _, link = content.decode().partition(" ")
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "exit":
            os._exit(0)
        elif word == "memory":
            held = [bytes(1 << 24) for _ in range(1000)]
        elif word == "processor":
            while True:
                pass
        elif word == "sleep":
            time.sleep(1000)
        elif word == "files":
            held = [open("/dev/null") for _ in range(10_000)]
        elif word == "raise":
            raise KeyError("its own fault")
        elif word == "environment":
            found.link("/" + "-".join(sorted(os.environ)))
        found.link(link)

hostile = Hostile()
"""

Extract = Callable[..., Deferred[list[PageLinks]]]


@pytest.fixture
def extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Extract]:
    """Extracts contents of the type text/x-hostile with two workers, which have little time if that is the point."""
    folder = tmp_path / "lcc" / "spider" / "extractors" / "plugins"
    folder.mkdir(parents=True)
    (folder / "hostile.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    limits = ExtractionLimits(memory_bytes=400 << 20, cpu_seconds=10, page_seconds=60.0)
    if "word" in request.fixturenames:
        limits = attrs.evolve(limits, cpu_seconds=1, page_seconds=3.0)
    pool = ExtractionPool(reactor, spawn_by(reactor, limits), limits, 2)
    pool.start()

    def extracted(*contents: str | bytes, mimetype: str = "text/x-hostile") -> Deferred[list[PageLinks]]:
        pages = [page(f"http://h.example/{n}", each, mimetype) for n, each in enumerate(contents)]
        return pool.extract(pages)

    yield extracted
    pytest_twisted.blockon(pool.stop())


async def test_a_page_that_ends_its_worker_is_set_aside_and_all_others_have_their_links(
    extract: Extract, logged: Any
) -> None:
    contents = [f"good /{n}" for n in range(40)]
    contents[14] = "kill /bad"
    found = await extract(*contents)
    assert [each.failed for each in found] == [not content.startswith("good") for content in contents]
    assert all(len(each.links) == 1 for each in found if not each.failed)
    assert "signal 9" in found[14].faults[0]
    assert "http://h.example/14" in str(logged)


@pytest.mark.long
@pytest.mark.parametrize(
    ("word", "reason"),
    [("exit", "ended"), ("memory", "400 MiB of memory"), ("processor", "ended"), ("sleep", "more than 3 s")],
)
async def test_a_page_that_ends_its_worker_in_another_way(
    extract: Extract, word: str, reason: str, logged: Any
) -> None:
    good, bad, later = await extract("good /x", f"{word} /bad", "good /y")
    assert (good.failed, bad.failed, later.failed) == (False, True, False)
    assert reason in bad.faults[0]


async def test_what_an_extractor_raises_is_a_fault_of_its_page(extract: Extract) -> None:
    raised, files, good = await extract("raise /x", "files /x", "good /x")
    assert not raised.failed and "KeyError" in raised.faults[0]
    assert not files.failed and "files" in files.faults[0]
    assert good.links


async def test_workers_know_nothing_of_the_environment(extract: Extract, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = await extract("environment /x")
    names = set(found.links[0].url.rpartition("/")[2].split("-"))
    assert names <= {"PATH", "PYTHONPATH", "PYTHONUTF8", "LC_CTYPE"}, os.environ.keys()


async def test_pdf_within_the_limits_of_a_worker(extract: Extract) -> None:
    (found,) = await extract(pdf_with_links("http://h.example/x"), mimetype="application/pdf")
    assert [link.url for link in found.links] == ["http://h.example/x"]


def test_a_limit_that_a_worker_was_started_with_is_not_exceeded() -> None:
    code = (
        "import resource; from lcc.spider.worker import limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 50))\n"
        "for value in (30, 45, 60): limit(resource.RLIMIT_NOFILE, value);"
        " print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "limit(resource.RLIMIT_NOFILE, 20, for_good=True); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["(30, 50)", "(45, 50)", "(50, 50)", "(20, 20)"]
