"""Indexes that ``lcc-export`` writes itself, Lucene's and tantivy's: they end with exactly what is in the cache."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from tests.support.pdf import pdf_with_text
from tests.support.processes.lucene import look
from tests.support.roles.content_users import Api

from .kit import EVERY, HTML, IMAGE, TEXT, Pages, change, command, run

A = "http://www.example.org/"
ROUNDS = int(os.environ.get("LCC_EXPORT_ROUNDS", "5"))
both = pytest.mark.parametrize("name", ["lucene", "tantivy"])
# Java takes a second to start.
lucene_if_long = pytest.mark.parametrize("name", [pytest.param("lucene", marks=pytest.mark.long), "tantivy"])


def found(name: str, folder: Path, words: list[str]) -> dict[str, Any]:
    """As :func:`tests.support.processes.lucene.look` tells it."""
    if name == "lucene":
        return look(folder, words)
    import tantivy

    index = tantivy.Index.open(str(folder))
    searcher, schema = index.searcher(), index.schema

    def urls(query: Any) -> list[str]:
        hits = searcher.search(query, 10_000).hits
        return sorted(searcher.doc(address)["curl"][0] for _, address in hits)

    texts = {word: urls(tantivy.Query.term_query(schema, "text", word)) for word in words}
    place = (folder / "lcc-export.json").read_text()
    titles = urls(tantivy.Query.term_query(schema, "title", "t"))
    return {**texts, "*": urls(tantivy.Query.all_query()), "titles": titles, "place": place}


async def check(name: str, folder: Path, pages: Pages) -> dict[str, Any]:
    """The index has exactly what is in the cache; gives its place."""
    seen = await deferToThread(found, name, folder, [EVERY, *pages.words])
    expected = pages.shown(by_url=False)
    assert {word: set(seen[word]) for word in pages.words} == {
        word: expected.get(word, set()) for word in pages.words
    }
    curls = sorted(curl for curl, _, _ in pages.now)
    assert seen["*"] == curls and seen[EVERY] == curls
    assert seen["titles"] == sorted(curl for curl, _, mimetype in pages.now if mimetype == HTML)
    place: dict[str, Any] = json.loads(seen["place"])
    return place


async def exported(api: Api, cwd: Path, *words: str, expect: int = 0) -> str:
    done = await deferToThread(run, command(api, *words), cwd)
    assert done.returncode == expect, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stderr


@lucene_if_long
@pytest_twisted.ensureDeferred
async def test_changes_deletions_and_what_is_refused(api: Api, pages: Pages, name: str, tmp_path: Path) -> None:
    index = tmp_path / "index"
    for number in range(7):
        pages.put(f"{A}{number}", mimetype=TEXT if number % 3 == 0 else HTML)
    assert await exported(api, tmp_path, name, "index", "--batch-pages", "3") == ""
    first = await check(name, index, pages)
    assert await exported(api, tmp_path, name, "index") == "nothing has changed\n"
    pages.put(f"{A}0", mimetype=TEXT)
    pages.delete(f"{A}1")
    pages.put(f"{A}7")
    await exported(api, tmp_path, name, "index")
    second = await check(name, index, pages)
    assert second["token"] != first["token"]

    # One folder, one selection; another may be asked for anew.
    said = await exported(api, tmp_path, name, "index", "--mimetype", HTML, expect=2)
    assert "another selection" in said and "Next: " in said
    await exported(api, tmp_path, name, "index", "--mimetype", HTML, "--rebuild")
    seen = await deferToThread(found, name, index, [])
    assert seen["*"] == sorted(curl for curl, _, mimetype in pages.now if mimetype == HTML)
    await exported(api, tmp_path, name, "index", "--rebuild", "--batch-pages", "2")
    await check(name, index, pages)

    # A backup was put back.
    pages.cache.database.now(lambda txn: txn.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'"))
    said = await exported(api, tmp_path, name, "index", expect=3)
    assert "--rebuild" in said
    await check(name, index, pages)


@both
@pytest_twisted.ensureDeferred
async def test_texts_of_all_sorts(api: Api, pages: Pages, name: str, tmp_path: Path) -> None:
    cafe = "zabacafédo"
    for number, (data, more) in enumerate(
        [
            (f"<title>T</title><p>{cafe}<script>zabahidden()</script>".encode(), {}),
            (f"<p>{cafe}".encode("latin-1"), {"charset": "iso-8859-1"}),
            (b"<p>zabacaf&eacute;do<!-- zabahidden -->", {}),
            (f"{cafe} \0 \ud83d\ude00".encode("utf-8", "surrogatepass"), {"mimetype": TEXT, "charset": "utf-8"}),
            (f"😀 {'x' * 100_000} {cafe}".encode(), {"mimetype": TEXT}),
        ]
    ):
        pages.put_data(f"{A}{number}", data, **more)
    pages.put_data(f"{A}image", b"zabahidden", mimetype=IMAGE)
    pages.put_data(f"{A}pdf", pdf_with_text("zabapdf", title="T"), mimetype="application/pdf")
    pages.put_data(f"{A}none", b"zabahidden", mimetype="application/pdf")
    said = await exported(api, tmp_path, name, "index")
    assert said.startswith(f"1 page without text; the first: {A}none: pdftotext: ") and said.count("\n") == 1
    seen = await deferToThread(found, name, tmp_path / "index", [cafe, "zabahidden", "zabapdf"])
    assert seen[cafe] == [f"{A}{number}" for number in range(5)]
    assert seen["zabapdf"] == [f"{A}pdf"] and seen["titles"] == [f"{A}0", f"{A}pdf"]
    assert seen["zabahidden"] == [] and f"{A}image" in seen["*"]


@lucene_if_long
@pytest_twisted.ensureDeferred
async def test_content_that_cannot_be_read_now(api: Api, pages: Pages, name: str, tmp_path: Path) -> None:
    pages.put(f"{A}1")
    pages.put(f"{A}2")
    files = [path for path in (tmp_path / "home" / "content").rglob("*") if path.is_file()]
    path = next(path for path in files if pages.now[f"{A}2", 1, HTML].encode() in path.read_bytes())
    path.rename(tmp_path / "away")
    said = await exported(api, tmp_path, name, "index")
    assert "1 pages with unreadable content: retried next time" in said
    assert (await deferToThread(found, name, tmp_path / "index", []))["*"] == [f"{A}1"]
    (tmp_path / "away").rename(path)
    assert await exported(api, tmp_path, name, "index") == ""
    assert (await check(name, tmp_path / "index", pages))["held_over"] == {}


@pytest_twisted.ensureDeferred
async def test_indexes_of_others(api: Api, pages: Pages, tmp_path: Path) -> None:
    import tantivy

    (tmp_path / "mine").mkdir()
    tantivy.Index(tantivy.SchemaBuilder().build(), path=str(tmp_path / "mine"))
    said = await exported(api, tmp_path, "tantivy", "mine", expect=1)
    assert "index of another program" in said
    pages.put(A)
    await exported(api, tmp_path, "tantivy", "ours")
    (tmp_path / "ours" / "meta.json").write_text("damaged")
    said = await exported(api, tmp_path, "tantivy", "ours", expect=1)
    assert str(tmp_path / "ours").split("/")[-1] in said and "Next: " in said
    said = await exported(api, tmp_path, "lucene", "index", "--jars", str(tmp_path), expect=1)
    assert "has no Lucene 8" in said and "liblucene8-java" in said


@lucene_if_long
@pytest_twisted.ensureDeferred
async def test_killed_at_random_it_ends_with_the_content_of_the_cache(
    api: Api, pages: Pages, name: str, tmp_path: Path
) -> None:
    random = Random(name)
    words = command(api, name, "index", "--batch-pages", "2")
    change(random, pages)
    begun = time.monotonic()
    await exported(api, tmp_path, name, "index", "--batch-pages", "2")
    whole = time.monotonic() - begun
    for _ in range(ROUNDS):
        change(random, pages)
        await deferToThread(run_and_kill, words, tmp_path, random.uniform(0.4, 1.2) * whole)
    change(random, pages)
    await exported(api, tmp_path, name, "index", "--batch-pages", "2")
    await check(name, tmp_path / "index", pages)


def run_and_kill(words: list[str], cwd: Path, after_seconds: float) -> None:
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(after_seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
