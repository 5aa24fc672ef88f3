"""What of Linux the standard library does not have, and processes as ``/proc`` shows them."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Seconds since the machine was booted: the clock that manager and shepherds share, since it is never set."""
    return time.clock_gettime(_CLOCK)


_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent dies, whatever session or group they have moved to."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the thread that has forked this process ends.  A change of user undoes it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def gain_nothing() -> None:
    """Let no program that this process runs, such as a setuid one, have more rights than it has."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def processes() -> Iterator[int]:
    """The ids of all processes that can be seen."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def parents() -> dict[int, int]:
    """Process -> its parent; zombies are left out."""
    found: dict[int, int] = {}
    for pid in processes():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # Behind the name, which is in parentheses and may have any in it: state, parent.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has just ended
        if state not in (b"Z", b"X"):
            found[pid] = int(parent)
    return found


def descendants(root: int) -> set[int]:
    """All that this process has forked, and they, and so on; not itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [root]
    while ahead:
        new = children.get(ahead.pop(), [])
        found.update(new)
        ahead += new
    return found


def send_signal(pid: int, number: int) -> bool:
    """Signal a process; False: it is gone, or another user's."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


_ROUNDS_MAX = 100


def kill_descendants(root: int) -> set[int]:
    """Kill all of them, also those that fork meanwhile; gives who they were.

    They are stopped first, until no new ones are found: a stopped process forks no more, and keeps its place in the
    count of its user's processes, so that a fork bomb at its limit cannot grow while it is being killed.
    """
    stopped: set[int] = set()
    for _ in range(_ROUNDS_MAX):
        new = descendants(root) - stopped
        if not new:
            break
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        send_signal(pid, signal.SIGKILL)
    return stopped


def tasks_of_user(uid: int) -> int:
    """How many threads of all processes this user has: what RLIMIT_NPROC counts."""
    count = 0
    for pid in processes():
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                count += os.stat(f"/proc/{pid}/task").st_nlink - 2
        except OSError:
            continue  # it has just ended
    return count


def marked(mark: bytes) -> Iterator[int]:
    """Processes with something in their environment, as they were started with it, that begins like this."""
    for pid in processes():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if b"\0" + mark in b"\0" + file.read():
                    yield pid
        except OSError:
            continue  # gone, or another user's
