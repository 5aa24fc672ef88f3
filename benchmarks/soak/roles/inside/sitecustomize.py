"""In each Python process of a soak with ``--inside``: at SIGUSR2, what its memory consists of, as a line of a file.

Python imports a module of this name at its start if it is in PYTHONPATH: the LCC itself has no such signal.
"""

import ctypes
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from functools import _lru_cache_wrapper
from pathlib import Path

_TYPES = 60


_MALLINFO2 = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33: all arenas together."""

    _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO2]


def _heap():
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return {"arena": found.arena, "used": found.uordblks, "mapped": found.hblkhd}


def _caches():
    """Entries of each ``lru_cache`` of a module."""
    found = {}
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is _lru_cache_wrapper and value.__module__ == module.__name__:
                found[f"{module.__name__}.{name}"] = value.cache_info().currsize
    return {name: size for name, size in found.items() if size > 8}


def _write(_number, _frame):
    uncollected = sys.getallocatedblocks()
    gc.collect()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    line = {
        "time": time.time(),
        "argv": sys.argv,
        "uncollected": uncollected,
        "blocks": sys.getallocatedblocks(),
        "heap": _heap(),
        "caches": _caches(),
        "objects": sum(types.values()),
        "types": dict(types.most_common(_TYPES)),
        "collections": [each["collections"] for each in gc.get_stats()],
    }
    with (Path(os.environ["SOAK_INSIDE"]) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


if "SOAK_INSIDE" in os.environ:
    signal.signal(signal.SIGUSR2, _write)
