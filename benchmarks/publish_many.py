"""All providers of whole_chain.py in one process.  Not for use alone.

``publish_many.py UNS-PORT ACCOUNTS latency COUNT CONFIG``: one URL at a time; prints the milliseconds from
``set_accepted`` to the row in the database, a JSON list.
``publish_many.py UNS-PORT ACCOUNTS all PAGES CONFIG``: every provider submits all its pages at once; prints when it
begins (``time.monotonic()``).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.internet.task import react
from whole_chain_count import open_counter

from lcc.config import load_config
from lcc.provider.client import submit, uns_endpoint


def urls(first: int, count: int) -> list[dict[str, str]]:
    """Elements as file2url would write them; without md5, so that all are fetched."""
    return [{"c": f"{page}.html", "m": "text/html"} for page in range(first, first + count)]


@inlineCallbacks
def one(port: str, account: dict[str, Any], first: int, count: int) -> Any:
    """Submit pages of one provider."""
    endpoint = uns_endpoint(reactor, f"127.0.0.1:{port}")
    elements = urls(first, count)
    result = yield submit(reactor, endpoint, account["pid"], account["password"], elements, urlprefix=account["url"])
    if not result.accepted or result.received != count:
        raise SystemExit(f"provider {account['pid']}: {result}")


@inlineCallbacks
def latency(port: str, accounts: list[dict[str, Any]], count: int, config: str) -> Any:
    """Submit one page at a time and wait for each."""
    counter = open_counter(load_config(Path(config)))
    found = []
    for number in range(count):
        before = counter()
        yield one(port, accounts[0], number, 1)
        accepted = time.monotonic()
        while counter() == before:
            if time.monotonic() - accepted > 60:
                raise SystemExit("one URL was not fetched within a minute")
        found.append(1000 * (time.monotonic() - accepted))
    print(json.dumps(found))


def main(_reactor: Any, port: str, accounts_file: str, mode: str, count: str, config: str) -> Any:
    """Do one or the other."""
    accounts = json.loads(Path(accounts_file).read_text())
    if mode == "latency":
        return latency(port, accounts, int(count), config)
    first = {0: 30}
    print(time.monotonic(), flush=True)
    return gatherResults(
        [
            one(port, account, first.get(number, 0), int(count) - first.get(number, 0))
            for number, account in enumerate(accounts)
        ]
    )


if __name__ == "__main__":
    react(main, sys.argv[1:])
