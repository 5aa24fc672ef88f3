"""The C heap of a process: what libraries in C and Rust have freed goes back to the system."""

from __future__ import annotations

import ctypes
from typing import Any

from twisted.application.service import Service
from twisted.internet.task import LoopingCall

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Of mallopt(3)."""
LARGE_BYTES = 128 << 10
TRIM_SECONDS = 60.0


class FreedMemory(Service):
    """Has glibc give freed memory back.  Start it before there are threads.

    By default each thread has a heap, and once a large block was freed, others of its size come from these heaps,
    which shrink at their ends only.  The search server held 52 MB, and used 10.  Here all threads have one heap,
    each block from :data:`LARGE_BYTES` on has a mapping of its own, and once a minute free pages within the heap are
    given back.  Other C libraries have no such functions, and no such heaps.
    """

    def __init__(self, reactor: Any) -> None:
        self._library: Any = ctypes.CDLL(None)
        self._loop = LoopingCall(self._trim)
        self._loop.clock = reactor

    def startService(self) -> None:
        super().startService()
        if hasattr(self._library, "mallopt"):
            self._library.mallopt(_ARENA_MAX, 1)
            self._library.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        if hasattr(self._library, "malloc_trim"):
            self._loop.start(TRIM_SECONDS, now=False)

    def stopService(self) -> None:
        super().stopService()
        if self._loop.running:
            self._loop.stop()

    def _trim(self) -> None:
        self._library.malloc_trim(0)
