"""What doc/search-engines.md says of the engines, by their own programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from lcc.export.engines.mirror import file_name
from tests.engines.test_names import row
from tests.support.processes.engines import DOCUMENT, listing
from tests.support.processes.system import BIN

HTML5 = (
    "<!doctype html><html><head><title>B&#252;cher &amp; V&#246;gel</title></head><body><header><nav>n</nav></header>"
    '<main><section><p>wonderful &mdash; <svg><path d="M0"/></svg></section></main></body></html>'
)


def run(folder: Path, *command: str | Path, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="latin-1",
        check=False,
    )


def script(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(listing(name))
    path.chmod(0o755)
    return path


def test_swish_e_says_nothing_of_html5(tmp_path: Path) -> None:
    index = script(tmp_path, "index-swish-e")
    for mode, name in (("full", "a"), ("changes", "b"), ("changes", "a")):
        head = f"Path-Name: {name}\nContent-Length: {len(HTML5)}\nLast-Mtime: 1\nDocument-Type: HTML*\n\n"
        done = run(tmp_path, index, tmp_path / "search", stdin=head + HTML5, LCC_EXPORT=mode)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown = run(
        tmp_path, "swish-e", "-f", tmp_path / "search/current/index", "-w", "wonderful", "-x", "%p %t\\n", "-H0"
    )
    assert sorted(shown.stdout.splitlines()) == ["a Bücher & Vögel", "b Bücher & Vögel"]
    # What is wrong is told.
    (tmp_path / "search" / "current" / "index").unlink()
    done = run(tmp_path, index, tmp_path / "search", stdin=head + HTML5, LCC_EXPORT="changes")
    assert done.returncode and "index" in done.stderr


def test_titles_of_swish_plus_plus(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    page = pages / file_name(row("http://a.example/x"))
    page.parent.mkdir(parents=True)
    said = dict(re.findall(r"^- (.*?)\((.*?)\)", DOCUMENT.partition("says `ignored`")[2], re.MULTILINE))
    ignored = re.findall("`(.*?)`", " ".join(said.values()))
    assert ignored == ["ab", "2024", "html5", "rhythm"]
    page.write_text(f"{HTML5} {' '.join(ignored)} B&#252;cher &#1084;&#1080;&#1088;")
    assert run(tmp_path, script(tmp_path, "index-swish++"), "i", pages).returncode == 0
    for word in ignored:
        assert "ignored" in run(tmp_path, "search++", "-p", "101", "-i", "i", word).stdout, word
    found = run(tmp_path, "search++", "-p", "101", "-i", "i", "bucher")
    shown = run(tmp_path, BIN / "lcc-export", "mirror-urls", pages, stdin=found.stdout, LC_ALL="C.UTF-8")
    assert shown.stdout.encode("latin-1").decode().rstrip().endswith("Bücher & Vögel")
    assert "http://a.example/x" in shown.stdout
