"""The peer: aiohttp fetches a list of URLs into files and takes their md5.  Run by peers.py."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp


async def worker(session: aiohttp.ClientSession, urls: Iterator[tuple[int, str]], target: Path) -> int:
    """One page after the other, from what all workers share."""
    count = 0
    for number, url in urls:
        async with session.get(url) as response:
            response.raise_for_status()
            found = hashlib.md5(usedforsecurity=False)
            with (target / f"{number}").open("xb", buffering=0) as file:
                async for data in response.content.iter_any():
                    found.update(data)
                    file.write(data)
            found.hexdigest()
            count += 1
    return count


async def main(listing: str, target: str, at_once: str) -> None:
    """``aiohttp_peer.py URL-FILE TARGET-FOLDER CONCURRENCY``; prints pages stored, wall seconds, CPU seconds."""
    urls = enumerate(Path(listing).read_text().split())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=int(at_once))) as session:
        begun, cpu = time.perf_counter(), time.process_time()
        counts = await asyncio.gather(*(worker(session, urls, Path(target)) for _ in range(int(at_once))))
        print(sum(counts), time.perf_counter() - begun, time.process_time() - cpu)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
