"""All providers of durable_intake.py in one process.  Not for use alone.

``intake_provider.py UNS-PORT ACCOUNTS URLS-EACH SET-URLS``: every provider sends its sets, one after the other.
Prints JSON: when the first set began and the last was answered (``time.monotonic``), and this process's CPU in
between.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lcc.protocols.cp_uns_client import init

START_SECONDS_MAX = 60
FAILED: list[int] = []


def page(number: int) -> str:
    """The name of a page."""
    return f"section{number % 97}/page-{number}.html"


def told(number: int) -> tuple[str, int, int]:
    """md5, length and time of a page."""
    return f"{number:032x}", 1000 + number % 9000, 10**9 + number


def sets(root: str, urls: int, set_urls: int) -> list[bytes]:
    """All sets of a provider."""
    found = []
    for first in range(0, urls, set_urls):
        lines = [f'<lococa:set set="partial" urlprefix="{root}">\n']
        for number in range(first, first + set_urls):
            md5, length, mtime = told(number)
            lines.append(f'<url c="{page(number)}" m="text/html" md5="{md5}" len="{length}" mtime="{mtime}"/>\n')
        lines.append("</lococa:set>\n")
        found.append("".join(lines).encode())
    return found


def _answer(connection: socket.socket, end: bytes) -> bytes:
    answer = b""
    while end not in answer:
        data = connection.recv(65536)
        if not data:
            raise SystemExit(f"the UNS has closed; it said {answer[-500:]!r}")
        answer += data
    return answer


def connect(port: int) -> socket.socket:
    """A connection to the UNS, which may only be starting."""
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def publish(port: int, account: dict[str, Any], texts: list[bytes], start: threading.Barrier) -> None:
    """Send all sets of one provider."""
    try:
        _publish(port, account, texts, start)
    except BaseException:
        start.abort()  # the others must not wait for this one
        FAILED.append(account["pid"])
        raise


def _publish(port: int, account: dict[str, Any], texts: list[bytes], start: threading.Barrier) -> None:
    with connect(port) as connection:
        connection.sendall(init(account["pid"], account["password"]).encode())
        _answer(connection, b"init_accepted>")
        start.wait()
        for text in texts:
            connection.sendall(text)
            answer = _answer(connection, b"</lococa:set_result>")
            if b"<set_accepted" not in answer or b"<url" in answer:
                raise SystemExit(f"a set was answered with {answer[-500:]!r}")


def main(port: str, accounts_file: str, urls: str, set_urls: str) -> None:
    """All providers at once."""
    accounts = json.loads(Path(accounts_file).read_text())
    start = threading.Barrier(len(accounts) + 1)
    threads = [
        threading.Thread(
            target=publish, args=(int(port), account, sets(account["root"], int(urls), int(set_urls)), start)
        )
        for account in accounts
    ]
    for thread in threads:
        thread.start()
    start.wait()
    begun, cpu = time.monotonic(), time.process_time()
    for thread in threads:
        thread.join()
    if FAILED:
        raise SystemExit(1)
    print(json.dumps({"begun": begun, "ended": time.monotonic(), "cpu_seconds": time.process_time() - cpu}))


if __name__ == "__main__":
    main(*sys.argv[1:])
