"""A peer that stores or hashes something else than there is does not count."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest
from common import digest_of, digest_of_files
from fetch_speed import rotated, run_lcc, web_server
from peers import run_curl

from tests.benchmarks.conftest import BENCHMARKS

FILES = 5


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with web_server(tmp_path, FILES, 300) as found:
        yield found


def test_the_digest_is_of_all_bodies_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"a")
    assert digest_of_files(tmp_path) == int(md5(b"a").hexdigest(), 16)
    (tmp_path / "2").write_bytes(b"b")
    assert digest_of_files(tmp_path) == digest_of([b"b", b"a"]) != digest_of([b"a"])


def test_curl_is_checked(web: tuple[str, int], tmp_path: Path) -> None:
    base, digest = web
    urls = [f"{base}/{number}/{number}.html" for number in range(FILES)]
    assert run_curl(tmp_path / "good", urls, digest)["rate"] > 0
    with pytest.raises(SystemExit, match="curl stored other bodies"):
        run_curl(tmp_path / "bad", urls, digest ^ 1)


def test_the_fetcher_is_checked(web: tuple[str, int], tmp_path: Path) -> None:
    base, digest = web
    assert run_lcc(base, tmp_path / "good", FILES, False, digest)["peak_mb"] > 10
    with pytest.raises(SystemExit, match="is not what nginx has"):
        run_lcc(base, tmp_path / "bad", FILES, False, digest ^ 1)


def test_each_is_first_in_turn() -> None:
    names = ["a", "b", "c"]
    assert [rotated(names, turn) for turn in range(4)] == [names, ["b", "c", "a"], ["c", "a", "b"], names]


@pytest.mark.parametrize("name", ["aiohttp_peer", "scrapy_peer", "scrapy_polite", "scrapy_queue"])
def test_a_peer_needs_nothing_of_ours(name: str) -> None:
    """It runs in an environment of its own."""
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text())
    wanted: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            wanted.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            wanted.add((node.module or "").partition(".")[0])
    assert wanted <= {*sys.stdlib_module_names, "aiohttp", "scrapy", "twisted"}
