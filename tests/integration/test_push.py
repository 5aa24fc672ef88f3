"""A site pings IndexNow, with real processes: the pages come to the queue, although the push server is killed, and
subscribers of the hub hear of them."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from lcc.config import load_config
from lcc.domain.push.websub import signature_fault
from lcc.storage.database.database import BlockingDatabase
from tests.support.ports import free_port
from tests.support.processes.system import System
from tests.support.servers.web_site import WebSite
from tests.support.waiting import wait_for

from .databases import SQLITE_ALWAYS

KEY = "abcdef0123456789"


@pytest.fixture
def site() -> Iterator[WebSite]:
    web = WebSite()
    yield web
    web.stop()


def push(port: int, site: WebSite, *names: str) -> tuple[int, Any]:
    host = f"127.0.0.1:{site.port}"
    body = {"host": host, "key": KEY, "urlList": [site.url + name for name in names]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/indexnow", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    except OSError:
        return 0, None
    finally:
        connection.close()


@SQLITE_ALWAYS
def test_a_push_comes_to_the_queue(tmp_path: Path, database_url: str | None, site: WebSite) -> None:
    port = free_port()
    listen = f'[push]\nlisten = "tcp:{port}:interface=127.0.0.1"\nunknown_sites = "register"\n'
    system = System(tmp_path, None, database_url, f"{listen}any_port = true\nallow_private = true\n")
    site.files[f"/{KEY}.txt"] = KEY.encode()
    config = load_config(system.config)

    def queued() -> set[str]:
        database = BlockingDatabase(config.database.url, config.home, config.database, random=random.Random(1))
        try:
            rows = database.interact(lambda txn: txn.query("SELECT curl FROM qdb"))
        finally:
            database.close()
        return {url for (url,) in rows}

    try:
        system.start("push")
        status, _ = wait_for("it accepts", lambda: (found := push(port, site, "a", "b"))[0] in (200, 202) and found)
        assert status == 202
        system.kill("push")
        system.start("push", "uns", "qm")
        wait_for("they are queued", lambda: queued() == {f"{site.url}a", f"{site.url}b"})
        wait_for("a proven key", lambda: push(port, site, "c")[0] == 200)
        system.kill("push")
        system.start("push")
        wait_for("it is queued", lambda: f"{site.url}c" in queued())
    finally:
        system.stop_all()


def subscribe(url: str, callback: str) -> int:
    """Subscribe to all changes at the hub of content users."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    fields = {"mode": "subscribe", "topic": f"{url}atom", "callback": callback, "secret": "mine"}
    try:
        connection.request("POST", "/hub", urlencode({f"hub.{name}": value for name, value in fields.items()}))
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_a_site_pings_and_a_subscriber_hears_of_it(tmp_path: Path, site: WebSite) -> None:
    """From end to end: IndexNow, the queue, a robot, the cache, the hub."""
    port, hub = free_port(), f"http://127.0.0.1:{free_port()}/"
    text = f"""
        [push]
        listen = "tcp:{port}:interface=127.0.0.1"
        any_port = true
        allow_private = true
        [cu]
        listen = "tcp:{urlsplit(hub).port}:interface=127.0.0.1"
        without_token = "rows"
        url = "{hub}"
        hub = true
        hub_allow_private = true
    """
    system = System(tmp_path, None, None, text)
    system.admin("provider", "add", "--watched", "--root", site.url, "--allow-private")
    site.files |= {f"/{KEY}.txt": KEY.encode(), "/news": (200, {"Content-Type": "text/html"}, b"<p>News")}
    user = WebSite()
    user.files["*"] = lambda path: (200, {}, parse_qs(urlsplit(path).query).get("hub.challenge", ["x"])[0].encode())
    try:
        system.start("all")
        wait_for("the hub accepts", lambda: subscribe(hub, f"{user.url}callback") == 202)
        wait_for("it has asked", lambda: len(user.asked) > 0)
        wait_for("a push", lambda: push(port, site, "news")[0] in (200, 202))
        wait_for("a delivery", lambda: len(user.posted) > 0)
        path, headers, body = user.posted[0]
        assert path == "/callback" and signature_fault("mine", headers["X-Hub-Signature"], body) == ""
        assert f"<title>{site.url}news</title>".encode() in body
        # It is gone, and that is told, too.
        del site.files["/news"]
        wait_for("a second push", lambda: push(port, site, "news")[0] == 200)
        wait_for("its deletion", lambda: any(b"at:deleted-entry" in each for _, _, each in user.posted))
        system.stop("all")
    finally:
        system.stop_all()
        user.stop()
