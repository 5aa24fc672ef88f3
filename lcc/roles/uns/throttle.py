"""Failed logins, counted by provider and by address, so that passwords cannot be tried at will."""

from __future__ import annotations

from collections import OrderedDict

_KEYS_MAX = 20_000


class LoginThrottle:
    """Says no before a password is looked at, once too many were wrong.

    For a provider an attempt counts as failed from the moment on that its password is looked at, until it turns out
    to be right: else any number could be tried at once, while the first of them are still being hashed.

    A window begins with the first wrong password and ends after its time; memory is bounded (the oldest windows are
    forgotten first).

    :param failures_max: wrong passwords within a window.
    """

    def __init__(self, failures_max: int, window_seconds: float) -> None:
        self._failures_max = failures_max
        self._window_seconds = window_seconds
        self._windows: OrderedDict[tuple[str, int | str], tuple[float, int]] = OrderedDict()

    def is_throttled(self, pid: int, address: str, now: float) -> bool:
        """Too many passwords for this provider, or from this address, were wrong lately."""
        return any(self._failures(key, now) >= self._failures_max for key in _keys(pid, address))

    def tried(self, pid: int, now: float) -> None:
        """A password for this provider is about to be looked at: :meth:`passed` or :meth:`failed` follows."""
        self._count(("provider", pid), now)

    def passed(self, pid: int, now: float) -> None:
        """It was right."""
        key = ("provider", pid)
        count = self._failures(key, now)
        if count > 1:
            self._windows[key] = (self._windows[key][0], count - 1)
        elif count:
            del self._windows[key]

    def failed(self, address: str, now: float) -> None:
        """It was wrong, or there is no such provider."""
        if address:
            self._count(("address", address), now)

    def _count(self, key: tuple[str, int | str], now: float) -> None:
        count = self._failures(key, now)
        if count:
            self._windows[key] = (self._windows[key][0], count + 1)
        else:
            self._windows[key] = (now, 1)
            if len(self._windows) > _KEYS_MAX:
                self._windows.popitem(last=False)

    def _failures(self, key: tuple[str, int | str], now: float) -> int:
        window = self._windows.get(key)
        if window is None:
            return 0
        begin, count = window
        if now - begin >= self._window_seconds:
            del self._windows[key]
            return 0
        return count


def _keys(pid: int, address: str) -> tuple[tuple[str, int | str], ...]:
    # A UNIX socket has no address: nothing to count there.
    return (("provider", pid), ("address", address)) if address else (("provider", pid),)
