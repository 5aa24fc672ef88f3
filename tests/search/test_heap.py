"""The C heap of search server, spider and content user API: one, and freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(CDLL(None), "malloc_stats"), reason="the C library is not glibc")

_THREADS = """
import ctypes, threading

library = ctypes.CDLL(None)
here = threading.Barrier(3)

def small():
    library.malloc(100)
    here.wait()

threads = [threading.Thread(target=small) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_stats()
"""
_TRIES = """
import ctypes, re
from twisted.internet.testing import MemoryReactorClock
from lcc.services.process.heap import LARGE_BYTES, TRIM_SECONDS, give_back_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
clock = MemoryReactorClock()
if {call}:
    give_back_freed_memory(clock)
clock.run()
libc.free(libc.malloc(100 * LARGE_BYTES))  # by default, smaller ones have no mapping of their own from now on
block = libc.malloc(50 * LARGE_BYTES)
is_mapped = ctypes.c_size_t.from_address(block - 8).value & 2  # IS_MMAPPED, in malloc.c
print("mapped" if is_mapped else "in a heap")
{threads}

def resident():
    return int(re.search(r"RssAnon:\\s*([0-9]+)", open("/proc/self/status").read())[1]) * 1024

for _ in range(2):
    # Small blocks are freed, but one above them is not.
    blocks = [libc.malloc(60_000) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    for block in blocks[:-1]:
        libc.free(block)
    before = resident()
    clock.advance(TRIM_SECONDS)
    print("given back" if before - resident() > 50_000_000 else "kept")
"""
_ROLE = """
import sys
from twisted.scripts.twistd import ServerOptions

options = ServerOptions()
options.parseOptions(["--nodaemon", "--pidfile=", *sys.argv[1:]])
options.loadedPlugins[options.subCommand].makeService(options.subOptions)
"""


def run(program: str, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
    """How many heaps a process of several threads has, and what it tells."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stderr.count("Arena "), done.stdout.strip()


def test_freed_memory_goes_back() -> None:
    heaps, place = run(_TRIES.format(call=False, threads=_THREADS))
    assert heaps > 1 and place == "in a heap\nkept\nkept"
    assert run(_TRIES.format(call=True, threads=_THREADS)) == (1, "mapped\ngiven back\ngiven back")


@pytest.mark.parametrize("role", ["cu", "fe-cu", "search", "spider", "qm", "bot", ""])
def test_which_processes_have_one_heap(role: str, tmp_path: Path) -> None:
    """Where all roles are in one process, it has the heaps of queue manager and robot as well."""
    listen = 'listen = "tcp:0:interface=127.0.0.1"'
    (tmp_path / "lcc.toml").write_text(f'[fe]\ndatabase = "sqlite:fe.db"\n[search]\n{listen}\n')
    heaps, _ = run(_ROLE + _THREADS, f"lcc-{role}" if role else "lcc", folder=tmp_path)
    assert (heaps == 1) == (role in ("cu", "fe-cu", "search", "spider"))
