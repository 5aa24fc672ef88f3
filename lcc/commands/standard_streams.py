"""Standard streams that were closed when the program started (``2>&-``, some daemons and cron replacements).

Left as they are, the next file or socket that is opened takes the free number, and what is meant for standard error
goes into it; and Python has None for ``sys.stdin``, ``sys.stdout`` and ``sys.stderr``.
"""

from __future__ import annotations

import os
import sys

_closed: set[int] = set()


def reopen_closed_streams() -> None:
    """Give each closed handle its number back; to be called before anything else is opened.

    Reading from a closed standard input and writing to a closed standard output fail, as they do for any other
    program: nobody must take nothing for an empty site.  Standard error is for people; without them it is
    ``/dev/null``.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.set_inheritable(os.open(os.devnull, mode), True)
            _closed.add(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


def input_was_closed() -> bool:
    """Whether standard input was closed when the program was started."""
    return 0 in _closed
