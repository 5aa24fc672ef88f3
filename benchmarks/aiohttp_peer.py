"""The peer: aiohttp fetches a list of URLs into files and takes their md5.  Run by peers.py.

It writes and collects garbage as the LCC's side of fetch_speed.py does.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from functools import reduce
from operator import xor
from pathlib import Path

import aiohttp


async def worker(session: aiohttp.ClientSession, urls: Iterator[tuple[int, str]], target: str) -> tuple[int, int]:
    """One page after the other, from what all workers share: how many, and the exclusive or of their md5."""
    count = digest = 0
    for number, url in urls:
        async with session.get(url) as response:
            response.raise_for_status()
            found = hashlib.md5(usedforsecurity=False)
            file = os.open(f"{target}/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            async for data in response.content.iter_any():
                found.update(data)
                if os.write(file, data) != len(data):
                    raise OSError(errno.EIO, "written in part")
            os.close(file)
            digest ^= int(found.hexdigest(), 16)
            count += 1
    return count, digest


async def main(listing: str, target: str, at_once: str) -> None:
    """``aiohttp_peer.py URL-FILE TARGET-FOLDER CONCURRENCY``; prints pages stored, wall and CPU seconds, digest."""
    urls = enumerate(Path(listing).read_text().split())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=int(at_once))) as session:
        gc.set_threshold(10_000, 20, 20)
        gc.freeze()
        begun, cpu = time.perf_counter(), time.process_time()
        found = await asyncio.gather(*(worker(session, urls, target) for _ in range(int(at_once))))
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        print(sum(count for count, _ in found), wall, cpu, reduce(xor, (digest for _, digest in found), 0))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
