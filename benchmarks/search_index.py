"""What indexing costs beside the bare library on the same texts, and how long queries take while pages arrive.

    make bench-search_index [ARGS="--pages 100000 --page-bytes 10240 --queries 2000"]

Ours is the index of the search server: all fields, the words' own rules, records for hits, the token in each commit.
The bare library has key, title and text, its own tokeniser, and replaces pages by their keys, too; both commit after
as many bytes.  Each runs in a process of its own, with one indexing thread; CPU is that of the process.  Then ours is
queried with two words while a thread adds pages and commits twice a second.  Texts are words by Zipf's law.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import attrs
from common import table

GOAL = 1.3
GOAL_P50_MS, GOAL_P99_MS = 10.0, 50.0
VOCABULARY = 50_000
COMMIT_BYTES = 64 << 20
HEAP_BYTES = 64 << 20
ARRIVING = 20
"""Pages that come with each commit while queries are asked."""


def vocabulary() -> tuple[list[str], list[float]]:
    """Words, and how often each is drawn, summed up."""
    chance = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(VOCABULARY)]
    return words, list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))


def texts(count: int, size_bytes: int, first: int = 0) -> Iterator[tuple[int, str, str]]:
    """Number, title and text of pages."""
    words, weights = vocabulary()
    for number in range(first, first + count):
        chance = random.Random(number)
        text = " ".join(chance.choices(words, cum_weights=weights, k=size_bytes // 6))[:size_bytes]
        yield number, " ".join(chance.choices(words, cum_weights=weights, k=6)), text


def bare(folder: Path, options: argparse.Namespace) -> None:
    """The library alone."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("key", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("title", stored=True)
    builder.add_text_field("text", stored=True)
    writer = tantivy.Index(builder.build(), str(folder)).writer(HEAP_BYTES, 1)
    held = 0
    for number, title, text in texts(options.pages, options.page_bytes):
        key = f"{number:040x}"
        writer.delete_documents_by_term("key", key)
        document = tantivy.Document()
        document.add_text("key", key)
        document.add_text("title", title)
        document.add_text("text", text)
        writer.add_document(document)
        held += len(text)
        if held >= COMMIT_BYTES:
            writer.commit()
            held = 0
    writer.commit()
    writer.wait_merging_threads()


def page(number: int, title: str, text: str) -> Any:
    from lcc.search.values import IndexedPage

    site = f"h{number % 50}.example.org"
    url = f"http://{site}/{number}"
    return IndexedPage(f"{number:040x}", number, number % 20, url, site, "html", number, title, "", text, "en")


def ours(folder: Path, options: argparse.Namespace) -> None:
    """The search server's index."""
    from lcc.search.index import IndexState, TextIndex

    index = TextIndex(folder, HEAP_BYTES)
    batch, held = [], 0
    for number, title, text in texts(options.pages, options.page_bytes):
        batch.append(page(number, title, text))
        held += len(text)
        if len(batch) == 500:
            index.add(batch)
            batch = []
        if held >= COMMIT_BYTES:
            index.commit(IndexState(f"t.{number}"))
            held = 0
    index.add(batch)
    index.commit(IndexState("t.end", complete=True))
    index._writer.wait_merging_threads()


def nothing(_: Path, options: argparse.Namespace) -> None:
    """What making the texts costs."""
    for _ in texts(options.pages, options.page_bytes):
        pass


PARTS = {"bare": bare, "ours": ours, "texts": nothing}


def measured(part: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """CPU seconds and peak memory of a part, in a process of its own."""
    sizes = ["--pages", str(options.pages), "--page-bytes", str(options.page_bytes)]
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--folder", str(folder), *sizes],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def queried(folder: Path, options: argparse.Namespace) -> list[float]:
    """Milliseconds of each query of two words, while pages arrive."""
    from lcc.search.index import TextIndex
    from lcc.search.query import parse_query

    words, _ = vocabulary()
    chance = random.Random(2)
    index = TextIndex(folder, HEAP_BYTES)
    over = threading.Event()

    def arrive() -> None:
        first = options.pages
        while not over.wait(0.5):
            index.add([page(*each) for each in texts(ARRIVING, options.page_bytes, first)])
            index.commit(attrs.evolve(index.state, token=f"t.{first}"))
            first += ARRIVING

    thread = threading.Thread(target=arrive)
    thread.start()
    taken = []
    try:
        for _ in range(options.queries):
            # Words as people ask for them: neither the rarest nor those of each page.
            two = " ".join(chance.choices(words[20:5000], k=1) + chance.choices(words[20:20_000], k=1))
            query = parse_query(two, "", 0)
            began = time.perf_counter()
            index.search(query, None, 10)
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
    finally:
        over.set()
        thread.join()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--page-bytes", type=int, default=10_240)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.part:
        options.folder.mkdir(parents=True, exist_ok=True)
        PARTS[options.part](options.folder, options)
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "bytes": used.ru_maxrss * 1024}))
        return
    with tempfile.TemporaryDirectory(prefix="lcc-bench-") as name:
        folder = Path(name)
        making = measured("texts", folder / "texts", options)["cpu"]
        rows, cost = [], {}
        for part in ("bare", "ours"):
            found = measured(part, folder / part, options)
            cost[part] = (found["cpu"] - making) / options.pages * 1000
            size = sum(file.stat().st_size for file in (folder / part).iterdir())
            rows.append([part, f"{cost[part]:.3f}", f"{found['bytes'] / (1 << 20):.0f}", f"{size / (1 << 20):.0f}"])
        print(table(["index", "CPU ms a page", "peak memory, MiB", "size, MiB"], rows))
        print(f"ours / bare: {cost['ours'] / cost['bare']:.2f} (goal: {GOAL})")
        taken = sorted(queried(folder / "ours", options))
        p99 = taken[int(len(taken) * 0.99)]
        print(
            f"queries of two words while pages arrive: p50 {statistics.median(taken):.1f} ms (goal {GOAL_P50_MS:g}), "
            f"p99 {p99:.1f} ms (goal {GOAL_P99_MS:g}), longest {taken[-1]:.1f} ms"
        )


if __name__ == "__main__":
    main()
