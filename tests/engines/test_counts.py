"""The search's index, Omega and SWISH-E on the same 5,000 pages: a word is found in exactly those that have it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.feeds.plain import plain_text
from lcc.search.index import IndexState, TextIndex
from lcc.search.query import parse_query
from lcc.search.schema import word_analyzer
from lcc.search.values import IndexedPage
from tests.support.processes.engines import listing
from tests.support.waiting import PATIENCE_SECONDS

PAGES = 5000
WORDS_EACH = 150
WORDS = 400
"""That are searched for: the most frequent, the rarest, and some between."""
DOCUMENTATION = Path("/usr/share/doc")
_PLAIN = re.compile("[a-z]{2,20}").fullmatch


def texts() -> Iterator[str]:
    """Debian's documentation in pieces of :data:`WORDS_EACH` words: of these only such as every engine takes for
    one."""
    analyzer = word_analyzer()
    count = 0
    for path in sorted(DOCUMENTATION.rglob("*")):
        if path.suffix not in (".html", ".txt") or not path.is_file():
            continue
        content = path.read_text(encoding="utf-8", errors="replace")[:2_000_000]
        text = plain_text(content, 1_000_000).text if path.suffix == ".html" else content
        words = [word for word in analyzer.analyze(text) if _PLAIN(word)]
        for start in range(0, len(words) - WORDS_EACH + 1, WORDS_EACH):
            yield " ".join(words[start : start + WORDS_EACH])
            count += 1
            if count == PAGES:
                return


def chosen(counts: Counter[str]) -> list[str]:
    ranked = [word for word, _ in counts.most_common()]
    return ranked[:100] + ranked[100 : -100 : max(1, len(ranked) // (WORDS - 200))] + ranked[-100:]


@pytest.mark.long
def test_every_engine_counts_the_same_pages(tmp_path: Path) -> None:
    pages = list(texts())
    assert len(pages) == PAGES, "scripts/system-packages installs enough documentation"
    counts: Counter[str] = Counter()
    for text in pages:
        counts.update(set(text.split()))
    words = chosen(counts)
    expected = {word: counts[word] for word in words}
    assert ours(tmp_path / "index", pages, words) == expected
    assert swish_e(tmp_path, pages, words) == expected
    assert omega(tmp_path, pages, words) == expected


def ours(folder: Path, pages: list[str], words: list[str]) -> dict[str, int]:
    index = TextIndex(folder)
    index.add(
        [
            IndexedPage(f"{number:040x}", 1, 1, f"http://h/{number}", "h", "text", 1, text=text)
            for number, text in enumerate(pages)
        ]
    )
    index.commit(IndexState("token"))
    found = {word: index.search(parse_query(word, "", 0.0), None, 1).total for word in words}
    index.close()
    return found


def run(command: list[str], data: str = "", **more: str) -> str:
    done = subprocess.run(
        command, input=data, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=more or None
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def swish_e(folder: Path, pages: list[str], words: list[str]) -> dict[str, int]:
    index = str(folder / "swish")
    documents = "".join(
        f"Path-Name: http://h/{number}\nContent-Length: {len(text)}\nDocument-Type: TXT*\n\n{text}"
        for number, text in enumerate(pages)
    )
    run(["swish-e", "-v", "0", "-S", "prog", "-i", "stdin", "-f", index], documents)
    found = {}
    for word in words:
        # Words such as "not" are operators.
        out = run(["swish-e", "-f", index, "-w", f'"{word}"', "-m", "1", "-H", "1"])
        hits = re.search("^# Number of hits: ([0-9]+)$", out, re.MULTILINE)
        found[word] = int(hits[1]) if hits else 0
    return found


def omega(folder: Path, pages: list[str], words: list[str]) -> dict[str, int]:
    (folder / "lcc.script").write_text(listing("lcc.script"))
    records = "".join(f"id={number}\nurl=http://h/{number}\ntext={text}\n\n" for number, text in enumerate(pages))
    run(["scriptindex", "--stemmer=none", str(folder / "default"), str(folder / "lcc.script")], records)
    (folder / "templates").mkdir()
    (folder / "templates" / "count").write_text("$set{stemmer,none}$msize")
    config = folder / "omega.conf"
    config.write_text(
        f"database_dir {folder}\ntemplate_dir {folder / 'templates'}\nlog_dir {folder}\ncdb_dir {folder}\n"
    )
    found = {}
    for word in words:
        query = [f'P="{word}"', "FMT=count", f"MINHITS={PAGES}"]
        out = run(["/usr/lib/cgi-bin/omega/omega", *query], OMEGA_CONFIG_FILE=str(config))
        found[word] = int(out.split()[-1].replace(",", ""))
    return found
