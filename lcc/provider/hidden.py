"""Taking a secret out of this process's command line, where every user of the machine can read it.

Linux shows in ``/proc/PID/cmdline`` (so in ``ps``) the memory that the arguments were put into when the process was
started; what is written over them there is seen no longer.  Until that has happened they were visible, for as long as
Python takes to start: no program can do anything about that.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_ARG_START = 47
_ARG_END = 48
"""Fields of ``/proc/self/stat``, counted from 0."""
_LENGTH_MAX = 1 << 22


def hide_option(option: str) -> None:
    """Write over the values of an option, given as ``--option=VALUE`` or ``--option VALUE``; elsewhere than on Linux
    nothing happens.  Python has its own copy of the arguments, which stays."""
    try:
        stat = Path("/proc/self/stat").read_bytes()
        shown = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return
    # The name of the program, in parentheses, may hold spaces.
    fields = [b"", b"", *stat.rpartition(b") ")[2].split()]
    if len(fields) <= _ARG_END:
        return
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if not 0 < end - start <= _LENGTH_MAX or ctypes.string_at(start, end - start) != shown:
        return
    for offset, length in values(shown, option.encode()):
        ctypes.memset(start + offset, ord("x"), length)


def values(shown: bytes, option: bytes) -> list[tuple[int, int]]:
    """Where an option's values stand in a command line: place and length of each.

    :param shown: the arguments, each with a NUL behind it.
    """
    found: list[tuple[int, int]] = []
    offset, follows = 0, False
    for argument in shown.split(b"\0"):
        if argument == b"--" and not follows:
            break
        if follows:
            found.append((offset, len(argument)))
        elif argument.startswith(option + b"="):
            skipped = len(option) + 1
            found.append((offset + skipped, len(argument) - skipped))
        follows = not follows and argument == option
        offset += len(argument) + 1
    return found
