"""``lcc-admin top`` while something is being fetched: from a site that sends a part, and the rest when it may."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.system import BIN, OriginServer, System
from tests.support.processes.terminal import NarrowTerminal
from tests.support.waiting import wait_for

FIRST_BYTES, ALL_BYTES = 1000, 20_000
PAGES = 3


class HesitantSite:
    """A web server that sends a page's first bytes at once, and the rest when it may.

    :ivar go_on: set: it may.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.go_on = go_on = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(ALL_BYTES))
                self.end_headers()
                self.wfile.write(b"x" * FIRST_BYTES)
                self.wfile.flush()
                go_on.wait(120)
                self.wfile.write(b"y" * (ALL_BYTES - FIRST_BYTES))

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def url(self, provider: str) -> str:
        """The root URL of a provider."""
        return f"http://127.0.0.1:{self._server.server_port}/{provider}/"

    def stop(self) -> None:
        """End it."""
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hesitant(tmp_path: Path) -> Iterator[HesitantSite]:
    (tmp_path / "www" / "site").mkdir(parents=True)
    for number in range(PAGES):
        (tmp_path / "www" / "site" / f"{number}.html").write_text(str(number))
    site = HesitantSite(tmp_path / "www")
    yield site
    site.stop()


@pytest.fixture
def lcc(tmp_path: Path, hesitant: HesitantSite) -> Iterator[System]:
    folder = tmp_path / "lcc"
    folder.mkdir()
    origin: Any = hesitant
    system = System(folder, origin, None)
    yield system
    system.stop_all()


def top(system: System) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(system.admin("top", "--once", "--json"))
    return answer


@pytest.mark.long
def test_what_is_being_fetched_is_shown(lcc: System, hesitant: HesitantSite) -> None:
    site: OriginServer | HesitantSite = hesitant
    lcc.start("uns", "qm", "botm", "bot")
    provider = lcc.add_site("site")
    lcc.publish_when_up(provider)

    def under_way() -> dict[str, Any] | None:
        answer = top(lcc)
        return answer if any(row["bytes"] for row in answer["fetching"]) else None

    answer = wait_for("a fetch is under way", under_way)
    # One at a time, as the site sees it.
    (row,) = answer["fetching"]
    assert row["url"].startswith(site.url("site")) and row["pid"] == provider.pid
    assert (row["machine"], row["robot"], row["attempt"]) == (1, "bot", 1)
    assert row["bytes"] == FIRST_BYTES and row["seconds"] >= 0
    assert (answer["running"], answer["waiting"]) == (1, 2)  # the rest of its run
    wait_for("the state says how much can be done", lambda: top(lcc)["capacity"] == 8 and not top(lcc)["troubles"])
    wait_for("time goes on", lambda: top(lcc)["fetching"][0]["seconds"] > row["seconds"])
    shown = lcc.admin("top", "--once").splitlines()
    assert shown[0].startswith("1 of 8 fetches running, 2 orders waiting")
    assert len(shown) == 3 and shown[2].endswith(row["url"]) and f"{FIRST_BYTES:,}" in shown[2]

    # On a very narrow terminal, and on one that can only type, until Ctrl-C.
    command = [str(BIN / "lcc-admin"), "--config", str(lcc.config), "top", "--every", "0.1"]
    for kind, redrawn in (("xterm", True), ("dumb", False)):
        with NarrowTerminal(command, dict(os.environ, TERM=kind), columns=20, lines=30) as terminal:
            terminal.wait_for(b"fetches")
            # A line is folded, not cut: the end of the URL is somewhere.
            terminal.wait_for(row["url"].rpartition("/")[2].encode())
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 0
            assert (b"\x1b[?1049h" in terminal.shown) == redrawn
            assert b"Traceback" not in terminal.shown

    hesitant.go_on.set()
    wait_for("all is fetched", lambda: len(lcc.cached(provider)) == PAGES)
    # A page can be seen a moment before the queue manager has crossed it out.
    wait_for("nothing is under way", lambda: (answer := top(lcc))["fetching"] == [] and answer["running"] == 0)
    lcc.kill("botm")
    wait_for("it is noticed", lambda: top(lcc)["troubles"] == ["no robot is connected"])
    assert top(lcc)["capacity"] == 0
