"""A feed, a whole LCC in one process, and its readers: polled through the queue, read by workers, items and text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lcc.client.blocking import Cache, CacheError, Gone
from tests.support.processes.system import System
from tests.support.waiting import wait_for

SETTINGS = """
[manager]
user = "root"
"""


class Feeds:
    """A site with a feed and pages.

    :ivar numbers: of the items.
    :ivar asked: paths that were asked for, with the status of the answer.
    """

    def __init__(self) -> None:
        self.numbers = [1, 2]
        self.asked: list[tuple[str, int]] = []

    def answer(self, path: str, known: str | None) -> tuple[int, str, bytes]:
        if path == "/feed.xml":
            items = "".join(
                f"<item><guid>{n}</guid><title>Item {n}</title><link>/page/{n}</link></item>"
                for n in reversed(self.numbers)
            )
            channel = f"<channel><title>News</title>{items}</channel>"
            body, kind = f"<rss version='2.0'>{channel}</rss>".encode(), "application/rss+xml"
        elif path.startswith("/page/"):
            text = "<p>Here is a sentence of the article, long enough.</p>" * 5
            page = f"<html><title>{path}</title><body><nav>Menu</nav><article>{text}</article>"
            body, kind = page.encode(), "text/html; charset=utf-8"
        elif path == "/robots.txt":
            body, kind = b"\xef\xbb\xbfUser-agent: *\nDisallow: /page/2\n", "text/plain"
        else:
            return 404, "text/plain", b"no"
        return (304, kind, b"") if known == f'"{len(body)}"' else (200, kind, body)


@contextmanager
def serving(feeds: Feeds) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, kind, body = feeds.answer(self.path, self.headers.get("If-None-Match"))
            feeds.asked.append((self.path, status))
            self.send_response(status)
            if status != 304:
                self.send_header("Content-Type", kind)
                self.send_header("ETag", f'"{len(body)}"')
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def titles(system: System) -> list[str]:
    try:
        with Cache(f"unix:{system.folder}/home/cu.sock") as cache:
            return sorted(item["title"] for item in cache.items())
    except (CacheError, OSError):
        return []


def texts(system: System, url: str) -> list[str]:
    """Of the pages below this URL."""
    found = []
    try:
        with Cache(f"unix:{system.folder}/home/cu.sock") as cache:
            for row in cache.urls(prefix=url):
                try:
                    found.append(cache.text(row))
                except Gone:
                    continue
    except (CacheError, OSError):
        pass
    return found


def curls(system: System) -> set[str]:
    with Cache(f"unix:{system.folder}/home/cu.sock") as cache:
        return {row["curl"] for row in cache.urls()}


@pytest.mark.long
def test_a_feed_from_its_address_to_items_and_text(tmp_path: Path) -> None:
    feeds = Feeds()
    system = System(tmp_path, None, None, extra=SETTINGS)
    try:
        with serving(feeds) as site:
            system.start("all")
            system.admin(
                "feed", "add", f"{site}/feed.xml", "--every", "10", "--full-content", "--allow-private", "--json"
            )
            wait_for("first items", lambda: titles(system) == ["Item 1", "Item 2"])
            # The pages of its items, in the background; their text is that of the article.
            wait_for("texts", lambda: len(texts(system, f"{site}/page/")) == 1)
            assert all("sentence" in text and "Menu" not in text for text in texts(system, f"{site}/page/"))
            assert not [path for path, _ in feeds.asked if path == "/page/2"]  # robots.txt forbids it
            # What changes is read, once; an unchanged poll makes no job.  From now on it is the site's own feed.
            system.admin("feed", "set", "1", "--listed")
            feeds.numbers.append(3)
            wait_for("a new item", lambda: titles(system) == ["Item 1", "Item 2", "Item 3"])
            wait_for("an unchanged poll", lambda: ("/feed.xml", 304) in feeds.asked)
            shown = json.loads(system.admin("feed", "show", "1", "--json"))
            assert (shown["identity"], shown["item_count"], shown["title"]) == ("id", 3, "News")
            assert "of its document" not in system.admin("feed", "why", "1")
            jobs = [json.loads(line) for line in system.admin("job", "list", "--json").splitlines()]
            read = [job for job in jobs if job["kind"] == "feed"]
            assert len(read) == 2 and {job["state"] for job in read} == {"completed"}, jobs
            # The feed itself is no page of the cache to content users.
            wait_for("pages", lambda: curls(system) == {f"{site}/page/{n}" for n in (1, 3)})
            sources = {}
            for line in system.admin("urls", "--prefix", f"{site}/page/", "--json").splitlines():
                row = json.loads(line)
                sources[row["curl"]] = row["source"]
            assert sources == {f"{site}/page/1": "feed", f"{site}/page/3": "listed"}
    finally:
        system.stop_all()
