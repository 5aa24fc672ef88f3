"""IndexNow: URLs that are on stable storage before their push is answered.

``python benchmarks/push_speed.py [--seconds 5] [--connections 16] [--runs 5] [--sqlite]``

Real ``twistd lcc-push`` and ``lcc-uns``, on a private MariaDB whose commits are synced, or on SQLite; no queue
manager runs.  A site of this process has proven its key.  Then so many kept connections push new URLs, for so many
seconds: lists of 100, then single ones by GET.  Clients and servers share the cores.  Nobody else does this: there is
no peer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from common import free_port, scratch
from lcc_site import LccSite
from rows import Row, add_options, at_least, give

from lcc.testing.mariadb import PrivateMariaDb

KEY = "abcdef0123456789"
LIST_URLS = 100
LISTS_GOAL, SINGLE_GOAL = 5000, 500
_PROOF_SECONDS = 60.0


class KeyFile(BaseHTTPRequestHandler):
    """The site that pushes: only its key file is there."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(KEY)))
        self.end_headers()
        self.wfile.write(KEY.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Client:
    """A connection that is kept.

    :param name: of its URLs, which no other has.
    """

    def __init__(self, port: int, site: str, name: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._site = site
        self._name = name
        self._count = 0

    def _url(self) -> str:
        self._count += 1
        return f"http://{self._site}/{self._name}/page-{self._count}.html"

    def push_list(self) -> int:
        """The status of the answer."""
        body = {"host": self._site, "key": KEY, "urlList": [self._url() for _ in range(LIST_URLS)]}
        return self._ask("POST", "/indexnow", json.dumps(body), {"Content-Type": "application/json"})

    def push_one(self) -> int:
        """The same of a single URL."""
        return self._ask("GET", f"/indexnow?{urlencode({'url': self._url(), 'key': KEY})}")

    def _ask(self, *request: Any) -> int:
        self._connection.request(*request)
        reply = self._connection.getresponse()
        reply.read()
        return reply.status


def measured(clients: list[Client], push: Callable[[Client], int], seconds: float) -> tuple[int, float]:
    """Answers, and the seconds that they took.

    :raises SystemExit: one is no 200.
    """
    counts = [0] * len(clients)
    wrong: list[int] = []
    start = time.monotonic()

    def work(number: int) -> None:
        while time.monotonic() - start < seconds and not wrong:
            status = push(clients[number])
            if status != 200:
                wrong.append(status)
                return
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise SystemExit(f"a push was answered with {wrong[0]}")
    return sum(counts), time.monotonic() - start


def proven(port: int, site: str) -> None:
    """Returns when the site's key is proven.

    :raises SystemExit: it never is.
    """
    deadline = time.monotonic() + _PROOF_SECONDS
    while time.monotonic() < deadline:
        try:
            if Client(port, site, "first").push_one() == 200:
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.1)
    raise SystemExit("the key of the site is not proven")


def measure(folder: Path, url: str | None, options: argparse.Namespace) -> list[tuple[float, float]]:
    """URLs a second, and CPU milliseconds of the push server for each: of lists, then of single ones."""
    found = []
    with ExitStack() as stack:
        keys = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), KeyFile))
        threading.Thread(target=keys.serve_forever, daemon=True).start()
        stack.callback(keys.shutdown)
        port = free_port()
        push = {
            "listen": f"tcp:{port}:interface=127.0.0.1",
            "unknown_sites": "register",
            "any_port": True,
            "allow_private": True,
            "requests_max": 10**9,
            "connections_per_address": 0,
        }
        lcc = LccSite(folder, url, {"push": push}, roles=("uns", "push"))
        stack.callback(lcc.stop)
        lcc.start()
        site = f"127.0.0.1:{keys.server_port}"
        proven(port, site)
        for ask, urls in ((Client.push_list, LIST_URLS), (Client.push_one, 1)):
            clients = [Client(port, site, f"{urls}-{number}") for number in range(options.connections)]
            before = lcc.cpu_seconds()["push"]
            answers, seconds = measured(clients, ask, options.seconds)
            cpu_ms = (lcc.cpu_seconds()["push"] - before) * 1000
            found.append((answers * urls / seconds, cpu_ms / max(1, answers * urls)))
        lcc.check()
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--sqlite", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = None if options.sqlite else stack.enter_context(PrivateMariaDb(durable=True))
        runs = [
            measure(folder / str(number), None if server is None else server.new_database(), options)
            for number in range(options.runs)
        ]
    where = "SQLite" if options.sqlite else "MariaDB"
    rows = []
    for at, (what, goal) in enumerate(((f"in lists of {LIST_URLS}", LISTS_GOAL), ("one by one", SINGLE_GOAL))):
        rates, costs = zip(*[run[at] for run in runs], strict=True)
        name = f"pushed URLs {what}, {where}"
        note = f"{options.connections} connections, durable when answered"
        rows.append(Row(name, "URLs/s", rates, goal=at_least(goal, of_ratio=False), note=note))
        rows.append(Row(f"CPU of the push server, {name}", "ms", costs))
    give(options, rows)


if __name__ == "__main__":
    main()
