"""``lcc-admin feed``, with and without a scheduler that carries its orders out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from twisted.internet.defer import Deferred

from lcc.admin.cli import main
from lcc.admin.tasks.orders import answer
from lcc.config import load_config
from lcc.domain.tasks.items import ItemRules, choose_policy, identify
from lcc.domain.tasks.rules import TaskRules
from lcc.model.feeds import FeedInfo, FeedItem
from lcc.model.items import as_json, feed_object, item_object
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from lcc.storage.providers.providers import get_provider, list_providers
from lcc.storage.tasks.feeds.items import ItemStore
from lcc.storage.tasks.store import TaskStore
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase, result_of
from tests.support.tasks import NOW

URL = "http://www.example.org/feed.xml"


def tasks_of(lcc: Lcc) -> DirectDatabase:
    place = place_of(load_config(lcc.config_path), TASKS)
    return DirectDatabase(place.url, place.home, place.series)


@contextmanager
def scheduler(lcc: Lcc, monkeypatch: Any, commands: str = "feeds") -> Iterator[DirectDatabase]:
    """Carries orders out whenever a command waits for its answer."""
    database = tasks_of(lcc)
    store = TaskStore(database, TaskRules(), ItemStore(ItemRules()), 1000)  # type: ignore[arg-type]  # stands in
    result_of(store.claim())

    def carried_out(*arguments: Any) -> Any:
        orders = result_of(store.due_work(NOW, (0, 0), 10_000, 0, 0)).orders
        result_of(Deferred.fromCoroutine(store.carry_out_orders(orders, NOW)))
        return answer(*arguments)

    monkeypatch.setattr(f"lcc.admin.feeds.{commands}.answer", carried_out)
    yield database
    database.blocking.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: Any) -> None:
    """Nobody answers later."""
    monkeypatch.setattr("lcc.admin.role_tables._WAIT_SECONDS", 0.1)


def test_feeds_without_a_scheduler(lcc: Lcc) -> None:
    assert lcc.admin("feed", "list").stdout == "there are no feeds: lcc-admin feed add URL\n"
    done = lcc.admin("feed", "add", URL)
    assert done.stdout == f"ordered: feed 1: {URL}\n" and "as soon as it runs" in done.stderr
    [added] = lcc.rows("feed", "add", "http://www.example.org/b", "--every", "60")
    assert added == {"id": 2, "url": "http://www.example.org/b", "done": False}
    # It is known all the same.
    assert json.loads(lcc.admin("feed", "show", "1", "--json").stdout)["url"] == URL
    failed = lcc.admin("feed", "add", "HTTP://www.example.org:80/feed.xml", code=1)
    assert "is feed 1 already" in failed.stderr
    assert lcc.admin("feed", "suspend", URL).stdout == "ordered: feed 1: suspended\n"
    [changed] = lcc.rows("feed", "set", "1", "--every", "60")
    assert changed == {"id": 1, "done": False}


def test_the_life_of_a_feed(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch) as database:
        assert lcc.admin("feed", "add", URL, "--full-content").stderr == ""
        [row] = lcc.rows("feed", "list")
        assert (row["id"], row["url"], row["state"], row["auto"]) == (1, URL, "active", True)
        assert (row["full_content"], row["links"], row["plugin"]) == (True, "same-host", "full-content")
        assert URL in lcc.admin("feed", "list").stdout and "3600 s auto" in lcc.admin("feed", "list").stdout
        put_items(database)
        shown = json.loads(lcc.admin("feed", "show", URL, "--json").stdout)
        assert (shown["title"], shown["identity"], shown["item_count"]) == ("News", "id", 2)
        assert [item["title"] for item in shown["items"]] == ["t1", "t0"]
        text = lcc.admin("feed", "show", "1", "--items", "1").stdout
        assert "  t1  http://a/1" in text and "t0" not in text and "\x1b" not in text
        assert lcc.admin("feed", "set", "1", "--every", "600", "--links", "anywhere").stdout == "feed 1: changed\n"
        [row] = lcc.rows("feed", "list")
        assert (row["every_seconds"], row["auto"], row["links"]) == (600, False, "anywhere") and row["full_content"]
        lcc.admin("feed", "set", "1", "--listed")
        assert lcc.rows("feed", "list")[0]["listed"]
        lcc.admin("feed", "set", "1", "--not-listed")
        lcc.admin("feed", "set", "1", "--auto", "--no-full-content", "--url", "http://www.example.org/new")
        [row] = lcc.rows("feed", "list")
        assert (row["auto"], row["full_content"], row["url"]) == (True, False, "http://www.example.org/new")
        assert lcc.admin("feed", "poll", "1").stdout == "feed 1: polled now\n"
        with monkeypatch.context() as patch:
            patch.setattr("lcc.admin.feeds.feeds.answer", lambda *_: {"task": 1, "job": 5})
            text = lcc.admin("feed", "poll", "1").stdout
            assert text == "feed 1: job 5 is to read what its last poll has found\n"
        assert lcc.admin("feed", "suspend", "1").stdout == "feed 1: suspended\n"
        failed = lcc.admin("feed", "poll", "1", code=1)
        assert "task 1 is suspended: resume it, and it is polled" in failed.stderr
        assert "suspended" in lcc.admin("feed", "why", "1").stdout
        assert lcc.admin("feed", "resume", "1").stdout.startswith("feed 1: active, next poll in ")
        assert lcc.admin("feed", "remove", "1").stdout == "feed 1: removed\n"
        assert lcc.rows("feed", "list") == []


def put_items(database: DirectDatabase) -> None:
    items = [FeedItem(id=str(n), title=f"t{n}", link=f"http://a/{n}") for n in range(2)]
    found = identify(items, choose_policy(items))
    objects = [item_object(item.record(), identity, digest, "") for identity, digest, item in found]
    stored = [as_json(each) for each in [feed_object(FeedInfo(title="News"), "id"), *objects]]
    database.now(ItemStore(ItemRules()).store, 1, 1, "", stored, NOW)


def test_why_a_feed_was_not_read(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch) as database:
        lcc.admin("feed", "add", URL)
        text = lcc.admin("feed", "why", URL).stdout
        assert "no worker has read it yet" in text and "no provider has a root for it" in text
        put_items(database)
        record = json.loads(lcc.admin("feed", "why", "1", "--json").stdout)
        assert record["items"] == 2 and record["job"] is None and record["page"]["url"] == URL
        assert "2 items" in lcc.admin("feed", "why", "1").stdout


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["add", "ftp://a/feed"], "begins with http:// or https://", 2),
        (["add", "nonsense"], "nonsense", 2),
        (["add", URL, "--every", "5"], "--every", 2),
        (["add", URL, "--listed"], "needs --full-content", 2),
        (["add", URL, "--links", "all"], "--links", 2),
        (["add", URL, "--plugin", "no-such"], "there is no feed plugin 'no-such'; there are default, feed", 2),
        (["add", URL, "--option", "x"], "'x' is not NAME=VALUE", 2),
        (["show", "9"], "there is no feed 9", 1),
        (["show", "http://none.example.org/"], "no feed has the URL", 1),
        (["set", "1"], "there is no feed 1", 1),
    ],
)
def test_what_is_wrong_is_named(lcc: Lcc, arguments: list[str], words: str, code: int) -> None:
    assert words in lcc.admin("feed", *arguments, code=code).stderr


def test_options_that_exclude_each_other(lcc: Lcc) -> None:
    lcc.admin("feed", "add", URL)
    assert "exclude" in lcc.admin("feed", "set", "1", "--auto", "--every", "60", code=2).stderr
    assert "nothing to change" in lcc.admin("feed", "set", "1", code=2).stderr


def test_private_feeds(lcc: Lcc) -> None:
    lcc.admin("feed", "add", "http://10.0.0.1/feed", "--allow-private")
    [watched] = lcc.write(list_providers)
    assert watched.watched and watched.allow_private and watched.roots == ("http://10.0.0.1/",)
    lcc.admin("provider", "add", "--root", "http://10.0.0.2/")
    failed = lcc.admin("feed", "add", "http://10.0.0.2/feed", "--allow-private", code=1)
    assert "belongs to provider" in failed.stderr and "--allow-private" in failed.stderr
    assert not lcc.write(get_provider, 2).allow_private


def test_feeds_that_become_private(lcc: Lcc, tmp_path: Path) -> None:
    lcc.admin("feed", "add", URL)
    lcc.admin("feed", "set", "1", "--url", "http://10.0.0.3/feed", "--allow-private")
    (tmp_path / "list.opml").write_text(OPML.format("http://10.0.0.4/feed", ""))
    lcc.admin("feed", "import", str(tmp_path / "list.opml"), "--allow-private")
    watched = lcc.write(list_providers)
    assert [each.roots for each in watched] == [("http://10.0.0.3/",), ("http://10.0.0.4/",)]
    assert all(each.allow_private for each in watched)


OPML = '<opml><body><outline text="x"><outline xmlUrl="{}"/></outline>{}</body></opml>'


def test_lists_of_feeds(lcc: Lcc, tmp_path: Path, monkeypatch: Any) -> None:
    lcc.admin("feed", "add", URL)
    path = tmp_path / "list.opml"
    more = "".join(f'<outline xmlUrl="http://a/{n}"/>' for n in range(500)) + '<outline xmlUrl="mailto:x"/>'
    path.write_text(OPML.format(URL, more))
    done = lcc.admin("feed", "import", str(path), "--every", "60", code=1)
    assert done.stdout == "500 feeds added, 1 was there already\n" and "refused: mailto:x" in done.stderr
    path.write_text(OPML.format(URL, ""))
    assert lcc.rows("feed", "import", str(path)) == [{"url": URL, "id": 1, "state": "there"}]
    path.write_text(OPML.format("http://b/own", ""))
    assert "--full-content" in lcc.admin("feed", "import", str(path), "--listed", code=2).output
    (own,) = lcc.rows("feed", "import", str(path), "--full-content", "--listed")
    with scheduler(lcc, monkeypatch):
        lcc.admin("feed", "suspend", "1")
        assert len(lcc.rows("feed", "list")) == 502
        assert json.loads(lcc.admin("feed", "show", str(own["id"]), "--json").stdout)["listed"]
        exported = lcc.admin("feed", "export").stdout
        assert exported.count("xmlUrl=") == 502 and f'xmlUrl="{URL}"' in exported
        assert len(lcc.rows("feed", "export")) == 502


def test_bombs_in_opml_are_refused(lcc: Lcc) -> None:
    bomb = '<!DOCTYPE opml [<!ENTITY a "a">]><opml><outline xmlUrl="http://a/&a;"/></opml>'
    done = lcc.admin("feed", "import", "-", code=1, text=bomb)
    assert "<stdin>: it has a document type" in done.stderr
    assert lcc.rows("feed", "list") == []


def test_ids_are_completed(lcc: Lcc) -> None:
    lcc.admin("feed", "add", URL)
    complete = ShellComplete(main, {}, "lcc-admin", "_LCC_ADMIN_COMPLETE")
    found = complete.get_completions(["--config", str(lcc.config_path), "feed", "show"], "")
    assert [(each.value, each.help) for each in found] == [("1", URL)]
    found = complete.get_completions(["feed", "add", "--plugin"], "per")
    assert [each.value for each in found] == ["permalink"]


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body, kind = {
            "/": (b"<link rel=alternate type=application/rss+xml title=T href=/f>", "text/html"),
            "/f": (b"<rss version='2.0'><channel><title>News</title></channel></rss>", "text/xml"),
            "/none": (b"<p>x", "text/html"),
        }.get(self.path, (b"", ""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def discover(folder: Path, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for its reactor."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lcc-admin", "feed", "discover", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expect and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done


def test_feeds_of_a_page_are_discovered(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        site, private = f"http://127.0.0.1:{server.server_port}/", ["--allow-private"]
        [named] = map(json.loads, discover(tmp_path, *private, site, "--json").stdout.splitlines())
        assert named == {"url": f"{site}f", "kind": "RSS", "title": "T"}
        [itself] = map(json.loads, discover(tmp_path, *private, f"{site}f", "--json").stdout.splitlines())
        assert itself == {"url": f"{site}f", "kind": "rss20", "title": "News"}
        said = discover(tmp_path, *private, site).stderr
        assert f"Next: lcc-admin feed add {site}f --allow-private" in said
        assert f"lcc-admin feed discover --allow-private {site}\n" in discover(tmp_path, site, expect=1).stderr
        assert discover(tmp_path, *private, f"{site}none").stdout == "the page names no feed\n"
        assert "404" in discover(tmp_path, *private, f"{site}away", expect=1).stderr
        server.shutdown()
