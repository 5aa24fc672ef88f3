"""A cache whose pages a test changes, and the real ``lcc-export`` against it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import attrs

from tests.support.cache import Cache
from tests.support.processes.engines import Engine
from tests.support.processes.system import BIN
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import PATIENCE_SECONDS

HTML, TEXT, IMAGE = "text/html", "text/plain", "image/png"
CURLS = [f"http://www.example.org/{folder}page{number}" for folder in ("", "a/") for number in range(12)]
EVERY = "zabadalone"
"""A word of each page."""


def word(number: int) -> str:
    """A word that no other number has, of a form that every engine takes for a word."""
    syllables = []
    for _ in range(4):
        number, rest = divmod(number, 60)
        syllables.append("bdfglmnprstv"[rest % 12] + "aeiou"[rest // 12])
    return "zu" + "".join(syllables)


@attrs.define
class Pages:
    """What is in the cache: key of a page -> the word that its content has.

    :ivar words: every word that there ever was.
    """

    cache: Cache
    host: ContentHost
    now: dict[tuple[str, int, str], str] = attrs.field(factory=dict)
    words: list[str] = attrs.field(factory=list)

    def put(self, curl: str, pid: int = 1, mimetype: str = HTML, mtime: int | None = None, **more: Any) -> str:
        """Change a page; gives the word that it has now."""
        new = word(len(self.words))
        self.words.append(new)
        text = f"{EVERY} {new}"
        data = f"<title>T</title><p>{text}</p>".encode() if mimetype == HTML else text.encode()
        self.put_data(curl, data, pid, mimetype, mtime=mtime, **more)
        self.now[curl, pid, mimetype] = new
        return new

    def put_data(self, curl: str, data: bytes, pid: int = 1, mimetype: str = HTML, **more: Any) -> None:
        """Change a page to these bytes."""
        file_id = self.host.add(data)
        md5 = hashlib.md5(data).hexdigest()
        self.cache.put(pid, curl, mimetype, md5=md5, len=len(data), fetched_fileid=file_id, **more)

    def delete(self, curl: str, pid: int = 1, mimetype: str = HTML) -> None:
        """Delete a page."""
        self.cache.delete(pid, curl, mimetype)
        del self.now[curl, pid, mimetype]

    def shown(self, by_url: bool) -> dict[str, set[str]]:
        """Word -> the URLs that a search for it finds.

        :param by_url: the engine has one page for each URL.
        """
        if not by_url:
            return {text: {curl} for (curl, _, _), text in self.now.items()}
        ranked = sorted(self.now, key=lambda page: (page[2] != HTML, page[1]))
        urls = {curl: self.now[curl, pid, mimetype] for curl, pid, mimetype in reversed(ranked)}
        return {text: {curl} for curl, text in urls.items()}


def change(random: Random, pages: Pages) -> None:
    """Some pages change, some go."""
    for _ in range(random.randint(1, 12)):
        page = random.choice(CURLS), random.choice((1, 1, 2)), random.choice((HTML, HTML, TEXT))
        if page in pages.now and random.random() < 0.4:
            pages.delete(*page)
        else:
            pages.put(*page, mtime=random.choice((None, 1_000_000_000, 1_500_000_000)))


def command(api: Api, *words: str) -> list[str]:
    """``lcc-export`` of that LCC."""
    return [str(BIN / "lcc-export"), "--from", f"http://127.0.0.1:{api.port}", *words]


def run(words: list[str], cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        words, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE_SECONDS, check=False, input=stdin
    )


def check(pages: Pages, engine: Engine, by_url: bool) -> None:
    """The engine finds exactly what is in the cache."""
    expected = pages.shown(by_url)
    wrong = {}
    for each in pages.words:
        found = engine.found(each)
        if found != expected.get(each, set()):
            wrong[each] = f"{found} instead of {expected.get(each)}"
    assert not wrong, wrong
    every = engine.found(EVERY)
    assert every == {url for urls in expected.values() for url in urls}, every
