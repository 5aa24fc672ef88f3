"""What the benchmarks share: pages, nginx over them, the peers' own environment, medians."""

from __future__ import annotations

import argparse
import errno
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from hashlib import md5
from operator import xor
from pathlib import Path

from lcc.storage.disk.file_system import Disk

PEERS = ("scrapy", "aiohttp", "matplotlib", "reader", "sgmllib3k")
"""The last one is what reader imports and does not ask for."""


def argument_parser(module_docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help begins with the first line of what its program says of itself."""
    return argparse.ArgumentParser(description=(module_docstring or "").split("\n", 1)[0])


def make_pages(folder: Path, providers: int, pages: int, page_bytes: int = 10_240) -> None:
    """``providers`` folders p0, p1 … with ``pages`` files each, none like another."""
    generator = random.Random(1)
    words = [f"word{generator.randrange(100_000)}" for _ in range(2000)]
    for provider in range(providers):
        site = folder / f"p{provider}"
        site.mkdir(parents=True)
        for page in range(pages):
            body = f"<html><title>{provider}/{page}</title>"
            while len(body) < page_bytes:
                body += " ".join(generator.choices(words, k=100)) + "\n"
            (site / f"{page}.html").write_text(body[:page_bytes])


TRASH = "LCC_BENCH_TRASH"
"""The environment's name of a folder for what is to be removed later."""
_TRASH_FREE_BYTES = 30 << 30


@contextmanager
def scratch(where: str | None = None) -> Iterator[Path]:
    """A temporary folder, whose folders lie far from each other on the disk.

    On ext4 making files is slow for some minutes after many were removed, twenty times as slow near them.  So no
    turn pays for what an earlier one has left; and where :data:`TRASH` says, and the disk has room, the folder goes
    there at the end, so that nothing is removed before all is measured.
    """
    folder = Path(tempfile.mkdtemp(prefix="lcc-bench-", dir=where))
    try:
        folder.chmod(0o755)
        Disk().spread(folder)
        yield folder
    finally:
        _throw_away(folder)


def _throw_away(folder: Path) -> None:
    later = os.environ.get(TRASH)
    if later and Disk().space(folder).free_bytes > _TRASH_FREE_BYTES:
        try:
            folder.rename(Path(later) / folder.name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            return
    shutil.rmtree(folder)


@contextmanager
def trash() -> Iterator[None]:
    """Within this nothing that :func:`scratch` gave is removed as long as the disk has room; at the end all of it."""
    if os.environ.get(TRASH):
        yield  # whoever has said so removes it
        return
    with tempfile.TemporaryDirectory(prefix="lcc-bench-trash-") as folder:
        os.environ[TRASH] = folder
        try:
            yield
        finally:
            del os.environ[TRASH]


@contextmanager
def nginx(root: Path, work: Path, location: str = "", addresses: Iterable[str] = ("127.0.0.1",)) -> Iterator[int]:
    """nginx over ``root`` on a free loopback port; gives the port.

    :param location: more directives for its server.
    :param addresses: of loopback, all with that port.
    :raises SystemExit: nginx is not installed (``make system`` installs it).
    """
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        raise SystemExit("nginx is not installed: run 'make system'")
    port = free_port()
    work.mkdir(parents=True, exist_ok=True)
    user = "user root;" if os.geteuid() == 0 else ""
    places = list(dict.fromkeys(["127.0.0.1", *addresses]))
    listen = "".join(f" listen {address}:{port};" for address in places)
    (work / "nginx.conf").write_text(
        f"{user} daemon off; master_process off; pid {work}/nginx.pid; error_log {work}/error.log;"
        f"events {{ worker_connections {1024 + len(places)}; }}"
        f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;"
        f" types {{ text/html html; }} client_body_temp_path {work}/t1; proxy_temp_path {work}/t2;"
        f" fastcgi_temp_path {work}/t3; uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;"
        f" server {{{listen} root {root}; {location} }} }}"
    )
    process = subprocess.Popen([program, "-c", str(work / "nginx.conf"), "-e", str(work / "error.log")])
    try:
        _wait_for_port(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("nginx did not start")


def peer_python(folder: Path | None = None) -> Path:
    """The Python of an environment with the peers and what draws pictures; made when it is not there yet."""
    folder = folder or Path(os.environ.get("LCC_BENCH_VENV", Path(__file__).parent.parent / "build" / "bench-venv"))
    python = folder / "bin" / "python"
    stamp = folder / "peers"
    if not stamp.exists() or stamp.read_text().split() != list(PEERS):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS], check=True)
        stamp.write_text(" ".join(PEERS))
    return python


def digest_of(bodies: Iterable[bytes]) -> int:
    """The md5 of all of them, in whatever order: the exclusive or of the md5 of each."""
    return reduce(xor, (int.from_bytes(md5(body, usedforsecurity=False).digest()) for body in bodies), 0)


def digest_of_files(folder: Path) -> int:
    """:func:`digest_of` what stands in the files of a folder."""
    return digest_of(path.read_bytes() for path in folder.iterdir())


def cpu_seconds_of_children() -> float:
    """CPU of all children that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds_of(pid: int) -> float:
    """CPU that a running process has used so far, by its own clock (clock_getcpuclockid), which counts no ticks."""
    return time.clock_gettime(~pid << 3 | 2)


def peak_memory_bytes(pid: int) -> int:
    """The largest resident size of a running process so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def spread(values: list[float]) -> str:
    """Median, and the smallest and largest value."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
