"""The C heap of the search server: one for all threads, and large blocks go back to the system."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL

import pytest

_TRIES = """
import ctypes, threading
from lcc.services.process.heap import LARGE_BYTES, give_back_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
if {call}:
    give_back_freed_memory()
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
"""


def tried(call: bool) -> tuple[int, str]:
    """How many heaps a process of several threads has, and where a large block is."""
    done = subprocess.run(
        [sys.executable, "-c", _TRIES.format(call=call)], capture_output=True, text=True, check=True
    )
    return done.stderr.count("Arena "), done.stdout.strip()


@pytest.mark.skipif(not hasattr(CDLL(None), "malloc_stats"), reason="the C library is not glibc")
def test_threads_share_a_heap_and_large_blocks_are_apart() -> None:
    heaps, place = tried(call=False)
    assert heaps > 1 and place == "in a heap"
    assert tried(call=True) == (1, "mapped")
