"""A content user as a process: keeps a copy of the cache in a folder, and its place in a file.

``python follower.py ADDRESS FOLDER [random]``; ``random``: each question has another limit.

It may be killed at any moment: what a change says is written before the token that covers it, and saying it again
changes nothing.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcc.client.blocking import Cache, CacheError, Gone, StartAgain

LIMIT = 40
LIMITS = (1, 2, 7, 40, 300)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that it is there as a whole or not at all."""
    partly = path.with_suffix(".part")
    partly.write_bytes(data)
    partly.replace(path)


def apply(cache: Cache, copy: Path, row: dict[str, Any]) -> None:
    """Do to the copy what this change says."""
    content, described = copy / f"{row['key']}.content", copy / f"{row['key']}.json"
    try:
        if row["state"] == "deleted":
            raise Gone(410, "deleted")
        data = cache.content(row).read()
    except Gone:
        # Deleted, or soon to be: then a later change says so.
        described.unlink(missing_ok=True)
        content.unlink(missing_ok=True)
        return
    replace(content, data)
    replace(described, json.dumps(row).encode())


def note(folder: Path, **said: Any) -> None:
    """Write down what was asked and told: the token, then rows, then the token that is kept."""
    with (folder / "told").open("a") as told:
        told.write(json.dumps(said) + "\n")


def follow(address: str, folder: Path, limits: Sequence[int]) -> None:
    """Follow the changes for ever."""
    copy, state = folder / "copy", folder / "token"
    copy.mkdir(parents=True, exist_ok=True)
    with Cache(address, timeout_seconds=20) as cache:
        while True:
            since = state.read_text() if state.exists() else "0"
            note(folder, asked=since)
            try:
                changes = cache.changes(since, wait=2, limit=random.choice(limits))
                for row in changes:
                    note(folder, **{name: row[name] for name in ("key", "curl", "state", "md5")}, time=time.time())
                    apply(cache, copy, row)
                assert changes.token is not None
                replace(state, changes.token.encode())
                note(folder, kept=changes.token)
            except StartAgain:
                for path in copy.iterdir():
                    path.unlink()
                state.unlink()
            except CacheError:
                time.sleep(0.05)


if __name__ == "__main__":
    follow(sys.argv[1], Path(sys.argv[2]), LIMITS if "random" in sys.argv[3:] else (LIMIT,))
