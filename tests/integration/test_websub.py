"""WebSub with Flask-WebSub as publisher, hub and subscriber, and an LCC of real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest

from lcc.client.blocking import Cache, CacheError
from tests.support.ports import free_port
from tests.support.processes.system import System
from tests.support.servers import web_site
from tests.support.waiting import wait_for

PEER = Path(web_site.__file__).with_name("websub_peer.py")
PYTHON = Path(sys.prefix) / "websub" / "bin" / "python"


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[str]:
    """The URL of the peer."""
    folder = tmp_path / "peer"
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PYTHON, PEER, folder], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline() or pytest.fail(f"no Flask-WebSub at {PYTHON}: make venv"))
    yield f"http://127.0.0.1:{port}/"
    process.kill()
    process.wait()
    process.stdout.close()


def asked(url: str, method: str = "GET") -> str:
    with urlopen(Request(url, method=method), timeout=60) as answer:
        return str(answer.read().decode())


def subscribed(peer: str, topic: str, hub: str) -> bool:
    try:
        return bool(asked(f"{peer}subscribe?{urlencode({'topic': topic, 'hub': hub})}", "POST"))
    except URLError:
        return False


@pytest.mark.long
def test_its_hub_pushes_and_its_subscriber_hears(tmp_path: Path, peer: str) -> None:
    port, public = free_port(), free_port()
    hub = f"http://127.0.0.1:{public}/"
    text = f"""
        [push]
        listen = "tcp:{port}:interface=127.0.0.1"
        url = "http://127.0.0.1:{port}/"
        allow_private = true
        [cu]
        listen = "tcp:{public}:interface=127.0.0.1"
        without_token = "content"
        url = "{hub}"
        hub = true
        hub_allow_private = true
    """
    system = System(tmp_path, None, None, text)

    def items() -> list[str]:
        try:
            with Cache(hub.rstrip("/")) as cache:
                return sorted(item["title"] for item in cache.items())
        except (CacheError, OSError):
            return []

    def shown() -> dict[str, Any]:
        found = json.loads(system.admin("feed", "show", "1", "--json"))["hubs"]
        return dict(found[0]) if found else {}

    try:
        system.start("all")
        # It would be polled once a day.
        system.admin("feed", "add", f"{peer}feed.xml", "--every", "86400", "--allow-private", "--json")
        wait_for("the first item", lambda: items() == ["first"])
        wait_for("a subscription", lambda: shown().get("state") == "active")
        assert (shown()["hub"], shown()["topic"]) == (f"{peer}hub", f"{peer}feed.xml")
        topic = f"{hub}atom?source=polled&prefix={quote(peer, safe='')}feed.xml"
        wait_for("the LCC's hub", lambda: subscribed(peer, topic, f"{hub}hub"))
        asked(f"{peer}item?title=second", "POST")
        wait_for("the second item", lambda: items() == ["first", "second"])
        assert shown()["pushes"] >= 1
        wait_for("a delivery", lambda: json.loads(asked(f"{peer}heard")))
        [heard_topic, body] = json.loads(asked(f"{peer}heard"))[0]
        assert heard_topic == topic and f"<title>{peer}feed.xml</title>" in body
        system.stop("all")
    finally:
        system.stop_all()
