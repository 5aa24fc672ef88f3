"""The C heap of a process: what libraries in C and Rust have freed goes back to the system."""

from __future__ import annotations

import ctypes
from typing import Any

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Of mallopt(3)."""
LARGE_BYTES = 128 << 10


def give_back_freed_memory() -> None:
    """Let glibc have one heap for all threads, and a mapping of its own for each block from :data:`LARGE_BYTES` on.

    By default each thread has a heap, and once a large block was freed, others of its size come from these heaps,
    which shrink at their ends only.  The search server held 70 MB where it used 10.  Call this before there are
    threads.  Other C libraries have no such function, and no such heaps.
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
