"""Taking a secret out of this process's command line, where every user of the machine can read it.

Linux shows in ``/proc/PID/cmdline`` (so in ``ps``) the memory that the arguments were put into when the process was
started; what is written over them there is seen no longer.  Until that has happened they were visible, for as long as
Python takes to start: no program can do anything about that.  So this module imports nothing that takes time.
"""

from __future__ import annotations

import os

_ARG_START = 47
_ARG_END = 48
"""Fields of ``/proc/self/stat``, counted from 0."""
_LENGTH_MAX = 1 << 22


def hide_option(option: str) -> None:
    """Write over the values of an option, given as ``--option=VALUE`` or ``--option VALUE``; elsewhere than on Linux
    nothing happens.  Python has its own copy of the arguments, which stays."""
    try:
        shown = _content("/proc/self/cmdline")
        found = values(shown, os.fsencode(option))
        if not found:
            return
        # The name of the program, in parentheses, may hold spaces.
        fields = [b"", b"", *_content("/proc/self/stat").rpartition(b") ")[2].split()]
        if len(fields) <= _ARG_END:
            return
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        if end - start != len(shown):
            return
        _write_over(start, shown, found)
    except OSError:
        return


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        size = 0
        while size < _LENGTH_MAX and (part := os.read(descriptor, 1 << 16)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _write_over(start: int, shown: bytes, found: list[tuple[int, int]]) -> None:
    try:
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.pread(memory, len(shown), start) == shown:
                for offset, length in found:
                    os.pwrite(memory, b"x" * length, start + offset)
        finally:
            os.close(memory)
    except OSError:
        # Some sandboxes do not have it.  Only now: this import takes as long as all of the above ten times over.
        import ctypes

        if ctypes.string_at(start, len(shown)) == shown:
            for offset, length in found:
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
