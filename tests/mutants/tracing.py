"""Which lines of some files each test executes."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

Lines = dict[str, set[int]]
"""File -> numbers of lines."""


class Tracer:
    """Collects the lines of some files.  Other code, and what was executed whole, costs a look-up for each call.

    :param files: as code objects name them.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._missing: dict[CodeType, set[int]] = {}
        self.lines: Lines = defaultdict(set)

    @contextmanager
    def collecting(self) -> Iterator[Lines]:
        """Collect what runs meanwhile, also in threads that begin then."""
        self.lines = defaultdict(set)
        self._missing = {}
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield self.lines
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        missing = self._missing.get(code)
        if missing is None:
            known = code.co_filename in self._files
            missing = self._missing[code] = {line for *_, line in code.co_lines() if line} if known else set()
        if not missing:
            return None
        lines = self.lines[code.co_filename]

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            missing.discard(frame.f_lineno)
            return line

        return line(frame, event, argument)
