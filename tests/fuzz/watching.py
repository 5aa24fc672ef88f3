"""What a stream may cost: what is logged, what stays in memory."""

from __future__ import annotations

import gc
import tracemalloc

from twisted.logger import LogEvent, formatEvent

from tests.support.logs import LoggedErrors, is_error


class ErrorLog(LoggedErrors):
    """Keeps what should not have been logged, failures of any level too.

    :ivar allowed: texts of errors that are no failures of the program, but what it says of a peer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.allowed: tuple[str, ...] = ()

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_failure") is None:
            if not is_error(event):
                return
            text = formatEvent(event)
            if any(allowed in text for allowed in self.allowed):
                return
        self.events.append(event)


class Memory:
    """What is held, as Python's allocator sees it.  Costs much time: for samples."""

    def __init__(self) -> None:
        tracemalloc.start()
        self._before = self._base = 0

    def warm(self) -> None:
        """What there is now will stay."""
        self._base = self._held()

    def begin(self) -> None:
        """A stream begins."""
        self._before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()

    def peak_bytes(self) -> int:
        """The most that was held beyond what there was when the stream began."""
        return tracemalloc.get_traced_memory()[1] - self._before

    def retained_bytes(self) -> int:
        """What has stayed since :meth:`warm`."""
        return self._held() - self._base

    def stop(self) -> None:
        """No longer."""
        tracemalloc.stop()

    @staticmethod
    def _held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
