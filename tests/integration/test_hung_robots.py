"""A robot hangs in the middle of a fetch, and its BOT-M is restarted: nobody else fetches from that site yet."""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.processes.system import Site, System
from tests.support.waiting import wait_for

LEASE_SECONDS = 12


class SlowSite(ThreadingHTTPServer):
    """Answers no request before :attr:`answers` is set.

    :ivar begun: when each request came in, on the monotonic clock.
    :ivar open: requests whose client is still there.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.open = 0
        self.answers = threading.Event()
        super().__init__(("127.0.0.1", 0), SlowRequest)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Of the site."""
        return f"http://127.0.0.1:{self.server_port}/"


class SlowRequest(BaseHTTPRequestHandler):
    """One of its requests."""

    server: SlowSite

    def do_GET(self) -> None:
        self.server.begun.append(time.monotonic())
        self.server.open += 1
        while not self.server.answers.is_set():
            if select.select([self.connection], [], [], 0.02)[0] and self.is_gone():
                self.server.open -= 1
                return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>slow</html>")

    def is_gone(self) -> bool:
        """The client has closed or reset its connection."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionResetError:
            return True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def slow_site() -> Iterator[SlowSite]:
    server = SlowSite()
    yield server
    server.answers.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = System(folder, None, None, settings={"bot": "deadline = 6\n"}, extra=f"[qm]\nlease = {LEASE_SECONDS}\n")
    yield system
    system.stop_all()


def fetching(system: System, slow_site: SlowSite, tmp_path: Path) -> None:
    """Start an LCC whose only robot is in the middle of a fetch."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for name in ("a.html", "b.html"):
        (folder / name).write_text(f"<html>{name}</html>")
    system.start("qm", "uns", "botm", "bot")
    (row,) = system.rows("provider", "add", "--root", slow_site.url, "--allow-private")
    system.publish_when_up(
        Site(row["pid"], row["password"], "slow", folder, slow_site.url, system.folder / "slow.state")
    )
    wait_for("a page is asked for", lambda: slow_site.begun)


def cached(system: System) -> int:
    return sum(row["state"] == "cached" for row in system.rows("urls"))


@pytest.mark.long
def test_another_robot_waits_until_the_lease_has_passed(system: System, slow_site: SlowSite, tmp_path: Path) -> None:
    fetching(system, slow_site, tmp_path)
    system.processes["bot"].send_signal(signal.SIGSTOP)
    system.kill("botm")
    system.start("botm", "bot2")
    wait_for("the queue manager knows", lambda: "Robots of BOT-M 1 hang: " in system.log("qm"))
    assert f"{system.folder}/home/content/robots" in system.log("botm")
    (lock,) = [
        file
        for file in (system.folder / "home/content/robots").iterdir()
        if file.read_text().strip() == str(system.processes["bot"].pid)
    ]
    wait_for("another robot asks", lambda: len(slow_site.begun) > 1)
    first, second = slow_site.begun[:2]
    assert second - first > 0.9 * LEASE_SECONDS
    system.kill("bot")
    slow_site.answers.set()
    wait_for("both pages are cached", lambda: cached(system) == 2)
    system.kill("botm")
    system.start("botm")
    wait_for("what the dead robot locked is removed", lambda: not lock.exists())


@pytest.mark.long
def test_once_it_is_killed_nobody_waits_any_longer(system: System, slow_site: SlowSite, tmp_path: Path) -> None:
    fetching(system, slow_site, tmp_path)
    system.processes["bot"].send_signal(signal.SIGSTOP)
    system.kill("botm")
    system.start("botm", "bot2")
    wait_for("the queue manager knows", lambda: "Robots of BOT-M 1 hang: " in system.log("qm"))
    system.kill("bot")
    wait_for("the queue manager gives the order up", lambda: "orders were lost at BOT-M 1" in system.log("qm"))
    wait_for("another robot asks", lambda: len(slow_site.begun) > 1)
    assert "Lease of order" not in system.log("qm")


def test_a_robot_that_only_lost_its_botm_delays_nothing(system: System, slow_site: SlowSite, tmp_path: Path) -> None:
    fetching(system, slow_site, tmp_path)
    system.kill("botm")
    wait_for("the robot gives its fetch up", lambda: not slow_site.open)
    system.start("botm")
    wait_for("it asks again", lambda: len(slow_site.begun) > 1)
    assert "hang" not in system.log("qm") + system.log("botm")
