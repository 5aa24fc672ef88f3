"""The peers that fetch a list of URLs into files: curl, aiohttp, Scrapy.  Each in a process of its own, 32 at once.

aiohttp and Scrapy take the md5 of each body, as the LCC does; curl cannot.  Their times are from the first request to
the last file, without the start of the interpreter; curl's is that of its process.  Each begins when all that was
written before is on the disk.  Where a digest is given (:func:`common.digest_of` the bodies), what was hashed and
what stands in the files must be that.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from common import cpu_seconds_of_children, digest_of_files, peer_python

AT_ONCE = 32
CURL = f"curl --parallel --parallel-max {AT_ONCE}"
CURL_ALONE = "curl, one connection"
AIOHTTP = f"aiohttp, {AT_ONCE} tasks"
SCRAPY = "Scrapy, CONCURRENT_ITEMS=1"


def run_curl(
    folder: Path, urls: Sequence[str], digest: int | None = None, at_once: int = AT_ONCE
) -> dict[str, float]:
    """Wall and CPU seconds, and files a second.

    :param at_once: 1: one after the other, on one connection.
    """
    out = _made(folder)
    listing = folder / "list"
    with listing.open("w") as file:
        for number, url in enumerate(urls):
            file.write(f"url={url}\noutput={out}/{number}\n")
    parallel = ["--parallel", "--parallel-max", str(at_once)] if at_once > 1 else []
    command = ["curl", "-s", "-f", *parallel, "-K", str(listing)]
    os.sync()
    begun, cpu = time.perf_counter(), cpu_seconds_of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, cpu = time.perf_counter() - begun, cpu_seconds_of_children() - cpu
    _check("curl", out, len(urls), digest)
    return _figures(len(urls), wall, cpu)


def run_aiohttp(folder: Path, urls: Sequence[str], digest: int | None = None) -> dict[str, float]:
    """The same."""
    return _run_python("aiohttp_peer.py", folder, urls, digest)


def run_scrapy(folder: Path, urls: Sequence[str], digest: int | None = None) -> dict[str, float]:
    """The same."""
    return _run_python("scrapy_peer.py", folder, urls, digest)


def _run_python(script: str, folder: Path, urls: Sequence[str], digest: int | None) -> dict[str, float]:
    out = _made(folder)
    listing = folder / "list"
    listing.write_text("\n".join(urls))
    command = [str(peer_python()), str(Path(__file__).with_name(script)), str(listing), str(out), str(AT_ONCE)]
    os.sync()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed: {done.stderr[-2000:]}")
    stored, wall, cpu, hashed = done.stdout.split()
    if int(stored) != len(urls) or digest not in (None, int(hashed)):
        raise SystemExit(f"{script} has hashed {stored} bodies of {len(urls)}, or others than there are")
    _check(script, out, len(urls), digest)
    return _figures(len(urls), float(wall), float(cpu))


def _made(folder: Path) -> Path:
    out = folder / "out"
    out.mkdir(parents=True)
    return out


def _check(name: str, out: Path, count: int, digest: int | None) -> None:
    stored = sum(1 for _ in out.iterdir())
    if stored != count:
        raise SystemExit(f"{name} stored {stored} files of {count}")
    if digest is not None and digest_of_files(out) != digest:
        raise SystemExit(f"{name} stored other bodies than there are")


def _figures(count: int, wall: float, cpu: float) -> dict[str, float]:
    return {"wall": wall, "cpu": cpu, "rate": count / wall, "cpu_ms": 1000 * cpu / count}
