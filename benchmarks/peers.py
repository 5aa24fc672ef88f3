"""The peers that fetch a list of URLs into files: curl, aiohttp, Scrapy.  Each in a process of its own, 32 at once.

aiohttp and Scrapy take the md5 of each body, as the LCC does; curl cannot.  Their times are from the first request to
the last file, without the start of the interpreter; curl's is that of its process.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from common import cpu_seconds_of_children, peer_python

AT_ONCE = 32
CURL = f"curl --parallel --parallel-max {AT_ONCE}"
AIOHTTP = f"aiohttp, {AT_ONCE} tasks"
SCRAPY = "Scrapy, CONCURRENT_ITEMS=1"


def run_curl(folder: Path, urls: Sequence[str]) -> dict[str, float]:
    """Wall and CPU seconds, and files a second."""
    out = _made(folder)
    listing = folder / "list"
    with listing.open("w") as file:
        for number, url in enumerate(urls):
            file.write(f"url={url}\noutput={out}/{number}\n")
    command = ["curl", "-s", "-f", "--parallel", "--parallel-max", str(AT_ONCE), "-K", str(listing)]
    begun, cpu = time.perf_counter(), cpu_seconds_of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - begun
    return _figures("curl", urls, sum(1 for _ in out.iterdir()), wall, cpu_seconds_of_children() - cpu)


def run_aiohttp(folder: Path, urls: Sequence[str]) -> dict[str, float]:
    """The same."""
    return _run_python("aiohttp_peer.py", folder, urls)


def run_scrapy(folder: Path, urls: Sequence[str]) -> dict[str, float]:
    """The same."""
    return _run_python("scrapy_peer.py", folder, urls)


def _run_python(script: str, folder: Path, urls: Sequence[str]) -> dict[str, float]:
    out = _made(folder)
    listing = folder / "list"
    listing.write_text("\n".join(urls))
    command = [str(peer_python()), str(Path(__file__).with_name(script)), str(listing), str(out), str(AT_ONCE)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed: {done.stderr[-2000:]}")
    stored, wall, cpu = done.stdout.split()
    return _figures(script, urls, int(stored), float(wall), float(cpu))


def _made(folder: Path) -> Path:
    out = folder / "out"
    out.mkdir(parents=True)
    return out


def _figures(name: str, urls: Sequence[str], stored: int, wall: float, cpu: float) -> dict[str, float]:
    if stored != len(urls):
        raise SystemExit(f"{name} stored {stored} files of {len(urls)}")
    return {"wall": wall, "cpu": cpu, "rate": stored / wall, "cpu_ms": 1000 * cpu / stored}
