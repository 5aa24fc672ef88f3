"""Reads a Lucene index, in a process of its own: Java does not leave one that it has been in.

``python -m tests.support.processes.lucene FOLDER``: words, a line each, from standard input; a JSON object to
standard output, with the place of the commit, and the URLs that each word finds; those of all pages as ``*``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]


def look(folder: Path, words: list[str]) -> dict[str, Any]:
    """What is found in an index."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.lucene", str(folder)],
        input="\n".join(words),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(folder: str) -> None:
    """Read words, and search for them."""
    from lcc.export.engines.lucene import JARS, start_java

    start_java(JARS)
    from jpype import JClass

    lucene = "org.apache.lucene"
    directory = JClass(f"{lucene}.store.FSDirectory").open(JClass("java.nio.file.Paths").get(folder))
    reader = JClass(f"{lucene}.index.DirectoryReader").open(directory)
    searcher = JClass(f"{lucene}.search.IndexSearcher")(reader)
    term, by_term = JClass(f"{lucene}.index.Term"), JClass(f"{lucene}.search.TermQuery")

    def urls(query: Any) -> list[str]:
        hits = searcher.search(query, 10_000).scoreDocs
        return sorted(str(searcher.doc(hit.doc).get("curl")) for hit in hits)

    found: dict[str, Any] = {word: urls(by_term(term("text", word))) for word in sys.stdin.read().split()}
    found["*"] = urls(JClass(f"{lucene}.search.MatchAllDocsQuery")())
    found["titles"] = urls(by_term(term("title", "t")))
    data = reader.getIndexCommit().getUserData()
    print(json.dumps({**found, "place": str(data.get("lcc"))}))


if __name__ == "__main__":
    main(sys.argv[1])
