"""The soak of all roles: its verdicts, its sites, and a slice of it in ``make test-long``."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest
from soak.finding import Finding
from soak.roles.lccs import SEGMENT_BYTES
from soak.roles.sites import (
    CRAWL_PAGES,
    SITEMAP_AWAY,
    SITEMAP_PAGES,
    VERSION_SECONDS,
    Sites,
    feed,
    links_of,
    sitemap,
)
from soak.roles.verdict import KEPT_LONGER, WORK, judge
from soak.roles.watch import Look, Sizes, resident_mb

from tests.benchmarks.conftest import BENCHMARKS

SLICE_MINUTES = 2.0
COUNT = 40
SITES = Sites("http://a", "http://b", "http://c", "http://d", ("http://e", "http://f", "http://g"))
LATE = range(30, COUNT)
"""The last quarter."""


def looks(**changed: Callable[[int], Any]) -> list[Look]:
    """At each of COUNT moments."""
    usual = Look(0.0, {"one qm": 60.0}, {"one qm": 20.0}, {"one qm": 0.0, "one search": 100.0}, {"one qm": 20})
    return [
        attrs.evolve(usual, time=number, **{name: value(number) for name, value in changed.items()})
        for number in range(COUNT)
    ]


def sizes(**changed: Callable[[int], Any]) -> list[Sizes]:
    usual = Sizes(
        0.0,
        {"one lccurl": 1000, "one pushset": 100, "two lccurl": 500},
        {"one": 5_000_000, "two": 2_000_000},
        {"one search": 9_000_000},
        {"one": 1000},
        5,
        {"links": SEGMENT_BYTES},
    )
    return [
        attrs.evolve(usual, time=number, **{name: value(number) for name, value in changed.items()})
        for number in range(COUNT)
    ]


def counts(**changed: Callable[[int], Any]) -> list[dict[str, float]]:
    usual = {what: (lambda number: number * 10) for what in (*WORK, "searches for what is new")}
    values = {**usual, **{name.replace("_", " "): value for name, value in changed.items()}}
    return [{"time": number, **{what: value(number) for what, value in values.items()}} for number in range(COUNT)]


def found(**given: Any) -> dict[str, Finding]:
    values = {"looks": looks(), "sizes": sizes(), "counts": counts(), "logs": [("one qm", "")], **given}
    return {each.what: each for each in judge(*values.values())}


def broken(**given: Any) -> set[str]:
    return {what for what, each in found(**given).items() if not each.kept}


def late(usual: Any, other: Any) -> Callable[[int], Any]:
    """Other in the last quarter."""
    return lambda number: other if number in LATE else usual


def test_all_is_kept() -> None:
    assert broken() == set()
    assert len(found()) == 10


MEMORY, WORKERS, HANDLES = "memory of each role is flat", "memory of workers is flat", "open files are flat"
TABLES, DATABASES, FOLDERS = "no table grows", "databases are as large as reckoned", "folders do not grow"


@pytest.mark.parametrize(
    ("what", "changed", "promise"),
    [
        ("own_mb", late({"one qm": 60.0}, {"one qm": 60.7}), MEMORY),
        ("own_mb", late({"one qm": 60.0}, {"one qm": 60.5}), ""),
        ("file_mb", late({"one qm": 20.0}, {"one qm": 90.0}), ""),
        ("children_mb", late({"one search": 100.0}, {"one search": 106.0}), WORKERS),
        ("children_mb", late({"one search": 100.0}, {"one search": 104.0}), ""),
        ("handles", late({"one qm": 20}, {"one qm": 26}), HANDLES),
        ("handles", late({"one qm": 20}, {"one qm": 25}), ""),
    ],
)
def test_a_process_that_grows(what: str, changed: Callable[[int], Any], promise: str) -> None:
    assert broken(looks=looks(**{what: changed})) == {promise} - {""}


def test_pages_of_files_are_counted_apart(tmp_path: Path) -> None:
    """The kernel keeps them for as long as it likes."""
    mebibytes = 20
    file = tmp_path / "index"
    file.write_bytes(bytes(mebibytes << 20))
    own, files = resident_mb(os.getpid())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert not any(mapped[at] for at in range(0, len(mapped), mmap.PAGESIZE))
        own_then, files_then = resident_mb(os.getpid())
    assert files_then - files > mebibytes / 2
    assert own_then - own < mebibytes / 4


def test_a_process_that_has_ended_has_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert resident_mb(process.pid) == (0.0, 0.0)


def test_the_first_quarter_warms_up() -> None:
    def warming(number: int) -> Mapping[str, float]:
        return {"one qm": 60.0 if number >= COUNT // 4 else 40.0}

    assert broken(looks=looks(own_mb=warming)) == set()


@pytest.mark.parametrize(
    ("what", "changed", "promises"),
    [
        ("rows", late({"one lccurl": 1000}, {"one lccurl": 1050}), {TABLES}),
        ("rows", late({"one lccurl": 1000}, {"one lccurl": 1040}), set()),
        *(("rows", late({f"one {name}": 9}, {f"one {name}": 9999}), set()) for name in KEPT_LONGER),
        ("database_bytes", late({"one": 5_000_000}, {"one": 7_200_000}), {DATABASES}),
        ("database_bytes", late({"one": 5_000_000}, {"one": 7_000_000}), set()),
        ("folder_bytes", late({"one search": 9_000_000}, {"one search": 12_100_000}), {FOLDERS}),
        ("content_files", late({"one": 1000}, {"one": 1121}), {FOLDERS}),
        ("content_files", late({"one": 1000}, {"one": 1119}), set()),
        ("segment_bytes", late({"links": 9}, {"links": 2 * SEGMENT_BYTES}), {"stores rotate"}),
        ("segments", lambda number: 0, {"stores rotate"}),
    ],
)
def test_what_grows_on_the_disk(what: str, changed: Callable[[int], Any], promises: set[str]) -> None:
    assert broken(sizes=sizes(**{what: changed})) == promises


@pytest.mark.parametrize("what", WORK)
def test_a_role_that_works_no_longer(what: str) -> None:
    assert "every role works all the time" in broken(counts=counts(**{what: lambda number: min(number, 29)}))


def test_what_fails() -> None:
    assert broken(counts=counts(failed=lambda number: 1)) == {"nothing fails"}
    assert broken(logs=[("one qm", "Traceback (most recent call last)")]) == {"nothing fails"}


def test_a_search_that_lags() -> None:
    lagging = counts(**{"found what is new": lambda number: number * 9})
    assert broken(counts=lagging) == {"the search keeps up"}


def test_the_sites_change_and_do_not_grow() -> None:
    name = "{http://www.w3.org/2005/Atom}id"
    documents = [feed(SITES, "http://b/hub", number * VERSION_SECONDS) for number in range(1000, 1200)]
    assert len(set(documents)) == len(documents)
    assert len({each.text for document in documents for each in ElementTree.fromstring(document).iter(name)}) < 100
    maps = [ElementTree.fromstring(sitemap(SITES, number * VERSION_SECONDS)) for number in range(1000, 1200)]
    assert {len(each) for each in maps} == {SITEMAP_PAGES - SITEMAP_AWAY}
    reached, new = set(), {("http://e", 0)}
    while new:
        reached |= new
        hosts = {url: index for index, url in enumerate(SITES.crawled)}
        links = {
            (SITES.crawled[hosts[host]] if link.startswith("/") else link[:8], int(link.rpartition("/")[2][:-5]))
            for host, number in new
            for link in links_of(SITES, hosts[host], number)
        }
        new = links - reached
    assert len(reached) == len(SITES.crawled) * CRAWL_PAGES


@pytest.mark.long
def test_a_slice(tmp_path: Path) -> None:
    """All roles work, and nothing fails; what grows wants more time."""
    command = [sys.executable, "-m", "soak.roles", "--minutes", str(SLICE_MINUTES), "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run([*command, "--sqlite"], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok   nothing fails") for line in lines), done.stdout
    kept = json.loads((tmp_path / "soak-roles.json").read_text())
    assert {what for what in WORK if not kept["counts"][-1].get(what)} == set()
    again = subprocess.run(
        [*command, "--judge", tmp_path / "soak-roles.json"], env=environment, capture_output=True, text=True
    )
    assert again.stdout.splitlines() == lines
