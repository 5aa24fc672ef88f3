"""What is known of what sites have pushed (IndexNow), for commands and the monitor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lcc.domain.registration.sites import host_of
from lcc.domain.urls import site_of
from lcc.domain.wording import utc
from lcc.model.push.pushes import KeyState, SiteKey
from lcc.model.shellwords import shell_command
from lcc.storage.database.transactions import Txn
from lcc.storage.push.keys import waiting_pushes

_WAITS = {
    KeyState.WAITING: "the key file is yet to be fetched",
    KeyState.APPROVED: "its site is being registered",
    KeyState.PROVEN: "it is yet to be told to the UNS",
    KeyState.REFUSED: "its key is refused",
}


def key_record(key: SiteKey) -> dict[str, Any]:
    """A key for JSON, without its text, which only its site need know."""
    return {
        "folder": key.folder,
        "state": key.state.value,
        "pid": key.pid or None,
        "named": key.made_time,
        "proven": key.proven_time or None,
        "reason": key.why,
    }


def push_records(txn: Txn, url: str) -> list[dict[str, Any]]:
    """Pushes of a URL that are not told yet, for JSON.

    :param url: normal.
    """
    name = site_of(url).partition(":")[2]
    return [
        {"folder": key.folder, "host": host_of(key.site), "state": key.state.value, "reason": key.why, "time": time}
        for key, time in waiting_pushes(txn, url, [f"{scheme}:{name}" for scheme in ("http", "https")])
    ]


def say_pushes(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The same for people, a line for each."""
    for each in records:
        state = KeyState(each["state"])
        command = shell_command("lcc-admin", "push", "approve", each["host"])
        waits = _WAITS.get(state) or f"it waits for approval; Next: {command}"
        reason = f": {each['reason']}" if each["reason"] and state is not KeyState.APPROVAL else ""
        yield f"pushed {utc(each['time'])} UTC with the key of {each['folder']}: {waits}{reason}"
