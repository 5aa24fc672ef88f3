"""Sets by HTTP: one-page POSTs over kept connections, and one long body whose memory stays flat.

``python benchmarks/set_posts.py [--posts 10000] [--providers 100] [--at-once 48] [--urls 1000000] [--runs 5]``

Real ``twistd lcc-push``, ``lcc-uns`` and ``lcc-qm`` on SQLite; no robot runs.  One thread plays all clients, on the
same cores: it sends what a client sends, waits for the verdict, and sends the next page on the same connection.  The
same pages as sets over open connections to port 9000 are what ``small_sets.py`` measures.  Of the long body, it is
told by how much the peaks of memory grow.
"""

from __future__ import annotations

import argparse
import base64
import json
import select
import socket
import time
from pathlib import Path

from common import free_port, scratch
from lcc_site import PASSWORD, LccSite
from queue_fill import note_chores_done
from rows import Row, add_options, at_least, give
from small_sets_provider import ROOT

WARM_UP = 300
RATE_GOAL = 2000
ROLE_NAMES = {"uns": "UNS", "qm": "QM", "push": "push server"}
SILENCE_SECONDS_MAX = 60.0
_PIECE_URLS = 1000


def head(pid: int, *lines: str) -> str:
    """The head of a request of this provider."""
    login = base64.b64encode(f"{pid}:{PASSWORD}".encode()).decode()
    path = f"/sets?urlprefix={ROOT.format(pid=pid)}"
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: push", f"Authorization: Basic {login}", *lines]) + "\r\n\r\n"


class Clients:
    """Connections that stay open, each with one request under way."""

    def __init__(self, port: int, providers: int, at_once: int) -> None:
        self._poll = select.epoll()
        self._open: dict[int, tuple[socket.socket, int]] = {}
        self._page = 0
        for number in range(at_once):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open[client.fileno()] = client, number % providers + 1
            self._poll.register(client, select.EPOLLIN)

    def run(self, count: int) -> float:
        """So many sets; gives the seconds that they took."""
        begun = time.monotonic()
        left = count
        for client, pid in self._open.values():
            self._post(client, pid)
            left -= 1
        under_way = len(self._open)
        while under_way:
            ready = self._poll.poll(SILENCE_SECONDS_MAX)
            if not ready:
                raise SystemExit(f"the push server says nothing for {SILENCE_SECONDS_MAX:.0f} s")
            for number, _ in ready:
                client, pid = self._open[number]
                said = client.recv(65536)
                if b'{"accepted":true' not in said:
                    raise SystemExit(f"a set was answered with {said[-500:]!r}")
                under_way -= 1
                if left > 0:
                    left -= 1
                    under_way += 1
                    self._post(client, pid)
        return time.monotonic() - begun

    def _post(self, client: socket.socket, pid: int) -> None:
        self._page += 1
        body = json.dumps({"c": f"section{self._page % 97}/page-{self._page}.html", "m": "text/html"}) + "\n"
        client.sendall((head(pid, f"Content-Length: {len(body)}") + body).encode())


def long_body(port: int, urls: int) -> float:
    """One set of so many URLs, in chunks; gives the seconds."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head(1, "Transfer-Encoding: chunked").encode())
        for first in range(0, urls, _PIECE_URLS):
            lines = [f'{{"c": "long/{first + at}.html", "m": "text/html"}}\n' for at in range(_PIECE_URLS)]
            data = "".join(lines).encode()
            client.sendall(b"%x\r\n%s\r\n" % (len(data), data))
        client.sendall(b"0\r\n\r\n")
        said = b""
        while b'"accepted":true' not in said:
            data = client.recv(65536)
            if not data:
                raise SystemExit(f"the set was answered with {said[-500:]!r}")
            said += data
    return time.monotonic() - begun


def measure(folder: Path, options: argparse.Namespace) -> tuple[float, dict[str, float], list[float]]:
    """POSTs a second, CPU milliseconds of each role for one; of a long body URLs a second, CPU microseconds of the
    push server for one, and by how many MB the peaks of memory of the push server and of the UNS have grown."""
    port = free_port()
    settings = {"push": {"listen": f"tcp:{port}:interface=127.0.0.1", "connections_per_address": 0}}
    site = LccSite(folder, None, settings, roles=("uns", "qm", "push"))
    site.add_providers({pid: ROOT.format(pid=pid) for pid in range(1, options.providers + 1)})
    note_chores_done(site.url, site.home)
    try:
        site.start()
        while socket.socket().connect_ex(("127.0.0.1", port)):
            site.check()
            time.sleep(0.1)
        clients = Clients(port, options.providers, options.at_once)
        clients.run(min(WARM_UP, options.posts))
        before = site.cpu_seconds()
        rate = options.posts / clients.run(options.posts)
        costs = {name: 1000 * (cpu - before[name]) / options.posts for name, cpu in site.cpu_seconds().items()}
        long: list[float] = []
        if options.urls:
            peaks, cpu = site.peaks_mb(), site.cpu_seconds()["push"]
            seconds = long_body(port, options.urls)
            cpu, after = site.cpu_seconds()["push"] - cpu, site.peaks_mb()
            grown = [after[role] - peaks[role] for role in ("push", "uns")]
            long = [options.urls / seconds, 1e6 * cpu / options.urls, *grown]
        return rate, costs, long
    finally:
        site.stop()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--posts", type=int, default=10_000)
    parser.add_argument("--providers", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=48, help="connections")
    parser.add_argument("--urls", type=int, default=1_000_000, help="of the long body; 0: none")
    add_options(parser)
    options = parser.parse_args()
    with scratch() as folder:
        found = [measure(folder / str(number), options) for number in range(options.runs)]
    rates, costs, longs = zip(*found, strict=True)
    note = f"{options.at_once} kept connections, {options.providers} providers; to the verdict"
    rows = [
        Row("sets of one page by HTTP, SQLite", "sets/s", rates, goal=at_least(RATE_GOAL, of_ratio=False), note=note),
        Row("CPU of all roles, sets of one page by HTTP", "ms", [sum(each.values()) for each in costs]),
    ]
    for role in costs[0]:
        name = f"CPU of the {ROLE_NAMES[role]}, sets of one page by HTTP"
        rows.append(Row(name, "ms", [each[role] for each in costs]))
    if options.urls:
        speeds, works, pushes, unses = zip(*longs, strict=True)
        what = f"a set of {options.urls:,} URLs by HTTP"
        rows += [
            Row("a long set by HTTP, SQLite", "URLs/s", speeds, note=f"{options.urls:,} URLs, to the verdict"),
            Row("CPU of the push server, a long set by HTTP", "µs", works),
            Row("memory that the push server takes for a long set by HTTP", "MB", pushes, peak=True, note=what),
            Row("memory that the UNS takes for a long set by HTTP", "MB", unses, peak=True, note=what),
        ]
    give(options, rows)


if __name__ == "__main__":
    main()
