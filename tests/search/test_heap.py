"""The C heap of search server and content user API: one for all threads, and large blocks go back to the system."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL

import pytest

_TRIES = """
import ctypes, re, threading
from twisted.internet.task import Clock
from lcc.services.process.heap import LARGE_BYTES, TRIM_SECONDS, FreedMemory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
clock = Clock()
if {call}:
    FreedMemory(clock).startService()
libc.free(libc.malloc(8 * LARGE_BYTES))  # by default, smaller ones have no mapping of their own from now on
block = libc.malloc(2 * LARGE_BYTES)
is_mapped = ctypes.c_size_t.from_address(block - 8).value & 2  # IS_MMAPPED, in malloc.c
print("mapped" if is_mapped else "in a heap")
here = threading.Barrier(3)

def small():
    libc.malloc(100)
    here.wait()

threads = [threading.Thread(target=small) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_stats()

# Small blocks are freed, but one above them is not.
blocks = [libc.malloc(60_000) for _ in range(1000)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
for block in blocks[:-1]:
    libc.free(block)

def resident():
    return int(re.search(r"RssAnon:\\s*([0-9]+)", open("/proc/self/status").read())[1]) * 1024

before = resident()
clock.advance(TRIM_SECONDS)
print("given back" if before - resident() > 50_000_000 else "kept")
"""


def tried(call: bool) -> tuple[int, str]:
    """How many heaps a process of several threads has, where a large block is, and what became of freed ones."""
    done = subprocess.run(
        [sys.executable, "-c", _TRIES.format(call=call)], capture_output=True, text=True, check=True
    )
    return done.stderr.count("Arena "), done.stdout.strip()


@pytest.mark.skipif(not hasattr(CDLL(None), "malloc_stats"), reason="the C library is not glibc")
def test_freed_memory_goes_back() -> None:
    heaps, place = tried(call=False)
    assert heaps > 1 and place == "in a heap\nkept"
    assert tried(call=True) == (1, "mapped\ngiven back")
