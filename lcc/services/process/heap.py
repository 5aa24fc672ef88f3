"""The C heap of a process: what libraries in C and Rust have freed goes back to the system."""

from __future__ import annotations

import ctypes
from typing import Any

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Of mallopt(3)."""
LARGE_BYTES = 128 << 10
TRIM_SECONDS = 60.0


def give_back_freed_memory(reactor: Any) -> None:
    """Have glibc give freed memory back, as long as the reactor runs.  Call this before there are threads.

    By default each thread has a heap, and once a large block was freed, others of its size come from these heaps,
    which shrink at their ends only.  The search server held 52 MB, and used 10.  Here all threads have one heap,
    each block from :data:`LARGE_BYTES` on has a mapping of its own, and once a minute free pages within the heap are
    given back.  Other C libraries have no such functions, and no such heaps.
    """
    library: Any = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_ARENA_MAX, 1)
        library.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)

    def trim() -> None:
        library.malloc_trim(0)
        reactor.callLater(TRIM_SECONDS, trim)

    if hasattr(library, "malloc_trim"):
        reactor.callWhenRunning(lambda: reactor.callLater(TRIM_SECONDS, trim))
