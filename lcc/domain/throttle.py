"""How often somebody may do something: failed logins, requests, counted by who it is and where it comes from."""

from __future__ import annotations

from collections import OrderedDict

KEYS_MAX = 20_000

Key = tuple[str, int | str]


class Windows:
    """Counts by key, each within a window of time that begins with the first event; memory is bounded (the oldest
    windows are forgotten first).

    :param seconds: length of a window.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._windows: OrderedDict[Key, tuple[float, int]] = OrderedDict()

    def count(self, key: Key, now: float) -> int:
        """Events in the window that is open now."""
        window = self._windows.get(key)
        if window is None:
            return 0
        begin, count = window
        if now - begin >= self._seconds:
            del self._windows[key]
            return 0
        return count

    def add(self, key: Key, now: float) -> None:
        """One more event."""
        count = self.count(key, now)
        if count:
            self._windows[key] = (self._windows[key][0], count + 1)
        else:
            self._windows[key] = (now, 1)
            if len(self._windows) > KEYS_MAX:
                self._windows.popitem(last=False)

    def take_back(self, key: Key, now: float) -> None:
        """One event was none."""
        count = self.count(key, now)
        if count > 1:
            self._windows[key] = (self._windows[key][0], count - 1)
        elif count:
            del self._windows[key]

    def seconds_left(self, key: Key, now: float) -> float:
        """Until the window that is open now ends; 0: none is."""
        window = self._windows.get(key)
        return 0.0 if window is None else max(0.0, window[0] + self._seconds - now)


class Throttle:
    """Lets each key do something so often within a window.

    :param limit: so often.
    """

    def __init__(self, limit: int, window_seconds: float) -> None:
        self._limit = limit
        self._windows = Windows(window_seconds)

    def take(self, keys: list[Key], now: float) -> float:
        """One more time, for all of these keys.

        :returns: 0: it may be done, and is counted; else it may not, and the seconds until it may.
        """
        full = [key for key in keys if self._windows.count(key, now) >= self._limit]
        if full:
            return max(1.0, *(self._windows.seconds_left(key, now) for key in full))
        for key in keys:
            self._windows.add(key, now)
        return 0.0


class LoginThrottle:
    """Says no before a password is looked at, once too many were wrong.

    An account is a provider's id, or the name of a user.  For it an attempt counts as failed from the moment on that
    its password is looked at, until it turns out to be right: else any number could be tried at once, while the first
    of them are still being hashed.

    Where an account was let in from lately, its own attempts alone count, not those from elsewhere: else whoever
    knows the number of a provider could lock it out.

    :param failures_max: wrong passwords within a window.
    """

    def __init__(self, failures_max: int, window_seconds: float) -> None:
        self._failures_max = failures_max
        self._windows = Windows(window_seconds)
        self._known: OrderedDict[tuple[int | str, str], None] = OrderedDict()

    def is_throttled(self, account: int | str, party: str, now: float) -> bool:
        """Too many passwords for this account, or from there, were wrong lately.

        :param party: who is at the other end, as far as its address tells (an IPv6 network, say); empty: not known.
        """
        keys = [self._account_key(account, party)]
        if party:  # over a UNIX socket nobody can be told from another
            keys.append(("address", party))
        return any(self._windows.count(key, now) >= self._failures_max for key in keys)

    def tried(self, account: int | str, now: float, party: str = "") -> None:
        """A password for this account is about to be looked at: :meth:`passed` or :meth:`failed` follows.

        :param party: as for :meth:`is_throttled`.
        """
        self._windows.add(self._account_key(account, party), now)

    def passed(self, account: int | str, now: float, party: str = "") -> None:
        """It was right."""
        key = self._account_key(account, party)
        # Not where it was tried: another of its logins has made this place known meanwhile.
        self._windows.take_back(key if self._windows.count(key, now) else ("account", account), now)
        if party:
            self._known[account, party] = None
            self._known.move_to_end((account, party))
            if len(self._known) > KEYS_MAX:
                self._known.popitem(last=False)

    def failed(self, party: str, now: float) -> None:
        """It was wrong, or there is no such account."""
        if party:
            self._windows.add(("address", party), now)

    def _account_key(self, account: int | str, party: str) -> Key:
        return ("known", f"{account} {party}") if (account, party) in self._known else ("account", account)
