"""Keeps a consumer from taking half of an export for the whole when ``lcc-export`` is killed.

A process that dies closes its files before its children are told (``PR_SET_PDEATHSIG``): a consumer would see the end
its input, and believe that it was all, before its signal.  So a second process, which does next to nothing, keeps the
writing end of the pipe open, too.  When ``lcc-export`` goes away without a word, it first kills the consumer, and all
of its process group, and then lets go of the pipe.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NoReturn

_DONE = b"done\n"
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE)


class Guardian:
    """Such a process, for one stream.

    :param pipe: the writing end of the consumer's input.
    :raises OSError: there can be no more processes.
    """

    def __init__(self, pipe: int) -> None:
        control, self._control = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(control)
            os.close(self._control)
            raise
        if self._pid == 0:
            _guard(control, pipe)
        # Here, too: what is sent to this group must not reach it, even if it has not run yet.
        os.setpgid(self._pid, self._pid)
        os.close(control)

    def announce(self) -> None:
        """In the process that is about to become the consumer, which leads a process group: this is whom to kill."""
        os.write(self._control, b"%d\n" % os.getpid())

    def release(self) -> None:
        """The consumer has all of it, or is dead: let go of the pipe."""
        with suppress(BrokenPipeError):  # it was killed itself
            os.write(self._control, _DONE)
        os.close(self._control)
        os.waitpid(self._pid, 0)


def _guard(control: int, pipe: int) -> NoReturn:
    try:
        os.setpgid(0, 0)  # what is sent to the terminal's, or the shell's, group is not for this one
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        first, last = sorted((control, pipe))
        os.closerange(0, first)
        os.closerange(first + 1, last)
        os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
        said = b""
        while not said.endswith(_DONE) and (piece := os.read(control, 64)):
            said += piece
        for leader in () if said.endswith(_DONE) else said.split():
            with suppress(ProcessLookupError):
                os.killpg(int(leader), signal.SIGKILL)
    finally:
        os._exit(0)
