"""The robot's fetcher against curl, aiohttp and Scrapy: the same files, from the same nginx, in turn.

Starts an nginx of its own on loopback (temporary configuration and folder) with 20,000 files of 10 KiB, then several
times in turn: the peers with 32 transfers at once (peers.py), and one process with 32 providers, each strictly one
fetch at a time, all guards on, that writes each body to a file of its own and hashes it.  Each is the first of its
round in turn.  What they hashed and what stands in their files must be what nginx has.

    python benchmarks/fetch_speed.py [--files 20000] [--size 10240] [--runs 5] [--folder DIR] [--profile]
                                     [--peers curl,aiohttp,scrapy]

Needs ``nginx`` and ``curl``.  Each run writes into a fresh folder, after everything before is on the disk; nothing is
left behind.  ``--folder /dev/shm``
leaves the disk out of it.
"""

from __future__ import annotations

import argparse
import cProfile
import errno
import hashlib
import json
import os
import pstats
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import digest_of, digest_of_files, peak_memory_bytes, scratch
from peers import AIOHTTP, CURL, SCRAPY, run_aiohttp, run_curl, run_scrapy
from rows import Row, add_options, at_least, give
from zope.interface import implementer

from lcc.interfaces import IContentSink

PROVIDERS = 32
CONFIGURATION = """
daemon off; worker_processes 1; {user} pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; default_type text/html;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


@implementer(IContentSink)
class FileSink:
    """One body: to a file, hashed."""

    __slots__ = ("_file", "_hash")

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._hash = hashlib.md5(usedforsecurity=False)

    def write(self, data: bytes) -> None:
        """As :class:`lcc.interfaces.IContentSink`.

        :raises OSError: not all of it was written.
        """
        self._hash.update(data)
        if os.write(self._file, data) != len(data):
            raise OSError(errno.EIO, "written in part")

    def close(self) -> str:
        """The digest of what was written."""
        os.close(self._file)
        return self._hash.hexdigest()


def client(base: str, folder: str, files: int, profile: bool) -> None:
    """The LCC's side, in a process of its own: prints its figures as JSON."""
    from twisted.internet import epollreactor

    epollreactor.install()
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred, gatherResults

    from lcc.config import BotConfig
    from lcc.fetchers.http import HttpFetcher
    from lcc.model import Fetched, FetchOrder
    from lcc.services.common import collect_garbage_rarely

    fetcher = HttpFetcher(reactor, BotConfig())
    names = iter(range(files))
    failures: list[str] = []
    digest = 0

    def provider(pid: int) -> Deferred[None]:
        done: Deferred[None] = Deferred()

        def step() -> None:
            number = next(names, None)
            if number is None:
                done.callback(None)
                return
            sink = FileSink(f"{folder}/{number}")
            order = FetchOrder(pid, f"{base}/{number % 100}/{number}.html", "text/html", True, False)

            def over(fetched: Fetched) -> None:
                nonlocal digest
                digest ^= int(sink.close(), 16)
                step()

            def failed(reason: object) -> None:
                failures.append(str(reason))
                done.callback(None)

            fetcher.fetch(order, sink, lambda url, location: location).addCallbacks(over, failed)

        step()
        return done

    def start() -> None:
        collect_garbage_rarely()  # as the robot does
        begin, cpu = time.perf_counter(), time.process_time()
        profiler = cProfile.Profile() if profile else None
        if profiler:
            profiler.enable()

        def finish(_: object) -> Deferred[None]:
            if profiler:
                profiler.disable()
                pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
            figures = {
                "wall": time.perf_counter() - begin,
                "cpu": time.process_time() - cpu,
                "peak_mb": peak_memory_bytes(os.getpid()) / 1e6,
                "failures": failures[:3],
                "digest": digest,
            }
            print(json.dumps(figures))
            return fetcher.close()

        gatherResults([provider(pid + 1) for pid in range(PROVIDERS)]).addCallback(finish).addBoth(
            lambda _: reactor.stop()
        )

    reactor.callWhenRunning(start)
    reactor.run()


@contextmanager
def web_server(folder: Path, files: int, size: int) -> Iterator[tuple[str, int]]:
    """nginx with the files; gives its base URL, and the md5 of all of them (:func:`common.digest_of`)."""
    noise = random.Random(1)
    for part in range(100):
        (folder / "www" / str(part)).mkdir(parents=True)
    digest = 0
    for number in range(files):
        body = noise.randbytes(size)
        digest ^= digest_of([body])
        (folder / "www" / str(number % 100) / f"{number}.html").write_bytes(body)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(CONFIGURATION.format(user=user, folder=folder, port=port))
    server = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", digest
    finally:
        server.terminate()
        server.wait()


def run_lcc(base: str, folder: Path, files: int, profile: bool, digest: int) -> dict[str, float]:
    """The fetcher's wall and CPU seconds, without the start of Python."""
    folder.mkdir()
    command = [sys.executable, __file__, "--client", base, str(folder), "--files", str(files)]
    os.sync()
    done = subprocess.run(command + (["--profile"] if profile else []), check=True, stdout=subprocess.PIPE)
    figures = json.loads(done.stdout)
    if figures["failures"]:
        raise SystemExit(f"fetches failed: {figures['failures']}")
    if (got := sum(1 for _ in folder.iterdir())) != files:
        raise SystemExit(f"{got} files are stored of {files}")
    if {figures["digest"], digest_of_files(folder)} != {digest}:
        raise SystemExit("what the fetcher has hashed or stored is not what nginx has")
    found = {key: float(figures[key]) for key in ("wall", "cpu", "peak_mb")}
    return found | {"rate": files / found["wall"], "cpu_ms": 1000 * found["cpu"] / files}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=10_240)
    parser.add_argument("--peers", default="curl,aiohttp,scrapy", help="which of them, by commas")
    add_options(parser)
    parser.add_argument("--folder", help="where to work (a tmpfs leaves the disk out of it)")
    parser.add_argument("--profile", action="store_true", help="profile one run of the fetcher instead")
    parser.add_argument("--client", nargs=2, metavar=("BASE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        base, folder = options.client
        client(base, folder, options.files, options.profile)
        return
    with scratch(options.folder) as root, web_server(root, options.files, options.size) as (base, digest):
        if options.profile:
            run_lcc(base, root / "lcc", options.files, True, digest)
            return
        figures = in_turn(base, digest, root, options)
    give(options, rows(figures, options))


def in_turn(base: str, digest: int, root: Path, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """What each has done, in each run; another one begins each time."""
    urls = [f"{base}/{number % 100}/{number}.html" for number in range(options.files)]
    peers = {"curl": run_curl, "aiohttp": run_aiohttp, "scrapy": run_scrapy}
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in ("lcc", *options.peers.split(","))}
    # The first round warms caches and memory up.
    for number in range(options.runs + 1):
        for name in rotated(list(figures), number):
            folder = root / f"{name}-{number}"
            if name == "lcc":
                figures[name].append(run_lcc(base, folder, options.files, False, digest))
            else:
                figures[name].append(peers[name](folder, urls, digest))
    return {name: found[1:] for name, found in figures.items()}


def rotated(names: list[str], turn: int) -> list[str]:
    """The same, another one first in each turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


def rows(figures: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> list[Row]:
    """The rows of the table."""

    def of(name: str, key: str) -> list[float]:
        return [run[key] for run in figures[name]]

    note = f"{options.files:,} files of {options.size:,} bytes, file and md5"
    goals = {"curl": (CURL, "curl", 0.8), "aiohttp": (AIOHTTP, "aiohttp", 1.6), "scrapy": (SCRAPY, "Scrapy", 12)}
    found = []
    for name in figures.keys() & goals.keys():
        peer, shown, bound = goals[name]
        what = f"robot alone, against {shown}"
        found.append(Row(what, "fetches/s", of("lcc", "rate"), peer, of(name, "rate"), at_least(bound), note=note))
        found.append(Row(f"{what}, CPU", "ms a fetch", of("lcc", "cpu_ms"), peer, of(name, "cpu_ms")))
    found.sort(key=lambda row: (row.unit != "fetches/s", row.name))
    return [*found, Row("peak memory of the robot's process, alone", "MB", of("lcc", "peak_mb"), peak=True)]


if __name__ == "__main__":
    main()
