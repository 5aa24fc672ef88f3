"""How far up the page stands that was meant: titles of Debian's documentation as queries, in the search and in Omega.

Both index the same pages (title, headings and text of HTML below /usr/share/doc).  Each title that no other page has
is a query; its page should come first.  The figure is the mean reciprocal rank: 1 / rank on the average, 0 for a page
that is not among the first 20.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from lcc.feeds.plain import plain_text
from lcc.search.index import IndexState, TextIndex
from lcc.search.query import QueryError, parse_query
from lcc.search.values import IndexedPage

DOCUMENTATION = Path("/usr/share/doc")
OMEGA = "/usr/lib/cgi-bin/omega/omega"
FIRST = 20
_SYNTAX = re.compile(r"""["()+*~^:]|(?<!\S)-|\b(?:AND|OR|NOT|XOR|NEAR|ADJ)\b""")
"""Of queries, in either engine: titles have words only."""
_SCRIPT = """id : boolean=Q unique=Q field=id
url : field=url
title : field=caption weight=3 index=S index
headings : weight=2 index
text : index truncate=300 field=sample
"""


def read_pages(count: int) -> list[IndexedPage]:
    """The pages, and what both know of them."""
    pages = []
    for path in sorted(DOCUMENTATION.rglob("*.html")):
        if not path.is_file() or path.stat().st_size > 2_000_000:
            continue
        markup = path.read_text(encoding="utf-8", errors="replace")
        found = plain_text(markup, 200_000)
        if not found.title or len(found.text) < 200:
            continue
        url = f"http://doc.example.org{quote(str(path))}"
        pages.append(
            IndexedPage(
                f"{len(pages):040x}",
                1,
                1,
                url,
                "doc.example.org",
                "html",
                1,
                title=found.title,
                headings=found.headings,
                text=found.text,
            )
        )
        if len(pages) == count:
            break
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=500)
    asked = parser.parse_args()
    pages = read_pages(asked.pages)
    titles = Counter(" ".join(page.title.lower().split()) for page in pages)
    wanted = [page for page in pages if titles[" ".join(page.title.lower().split())] == 1]
    step = max(1, len(wanted) // asked.queries)
    queries = [(one_line(_SYNTAX.sub(" ", page.title)), page.key) for page in wanted[::step]]
    queries = [(text, key) for text, key in queries if text][: asked.queries]
    print(f"{len(pages)} pages, {len(queries)} queries")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for engine, ranks in (("search", ours(folder, pages, queries)), ("Omega", omega(folder, pages, queries))):
            mean = sum(1 / rank for rank in ranks if rank) / len(ranks)
            first = sum(rank == 1 for rank in ranks) / len(ranks)
            lost = sum(rank == 0 for rank in ranks)
            print(
                f"{engine:8} mean reciprocal rank {mean:.4f}, first {first:.1%}, not among the first {FIRST}: {lost}"
            )
    return 0


def ours(folder: Path, pages: list[IndexedPage], queries: list[tuple[str, str]]) -> list[int]:
    index = TextIndex(folder / "index")
    index.add(pages)
    index.commit(IndexState("token"))
    ranks = []
    began = time.monotonic()
    for text, key in queries:
        try:
            hits = index.search(parse_query(text, "", 0.0), None, FIRST).hits
        except QueryError:
            hits = ()
        ranks.append(rank([hit.key for hit in hits], key))
    print(f"search   {1000 * (time.monotonic() - began) / len(queries):.1f} ms a query")
    return ranks


def omega(folder: Path, pages: list[IndexedPage], queries: list[tuple[str, str]]) -> list[int]:
    (folder / "script").write_text(_SCRIPT)
    records = "".join(
        f"id={page.key}\nurl={page.url}\ntitle={one_line(page.title)}\nheadings={one_line(page.headings)}\n"
        f"text={one_line(page.text)}\n\n"
        for page in pages
    )
    subprocess.run(
        ["scriptindex", str(folder / "default"), str(folder / "script")],
        input=records.encode(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    templates = folder / "templates"
    templates.mkdir()
    (templates / "keys").write_text("$hitlist{$field{id}\n}")
    config = folder / "omega.conf"
    config.write_text(f"database_dir {folder}\ntemplate_dir {templates}\nlog_dir {folder}\ncdb_dir {folder}\n")
    environment = {**os.environ, "OMEGA_CONFIG_FILE": str(config), "QUERY_STRING": ""}
    ranks = []
    for text, key in queries:
        done = subprocess.run(
            [OMEGA, f"P={text}", "FMT=keys", f"HITSPERPAGE={FIRST}", "DEFAULTOP=and"],
            capture_output=True,
            env=environment,
            check=True,
            text=True,
        )
        ranks.append(rank(re.findall("^[0-9a-f]{40}$", done.stdout, re.MULTILINE), key))
    return ranks


def rank(found: list[str], key: str) -> int:
    return found.index(key) + 1 if key in found else 0


def one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
