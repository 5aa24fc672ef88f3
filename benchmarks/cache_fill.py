"""A database with very many cached URLs, as it stands after their fetches were recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from queue_fill import opened

from lcc.domain.keys import url_key
from lcc.storage.database.tables.rows import CACHED, empty_cache_row
from lcc.storage.database.transactions import Txn

TIME = 1_760_000_000
ROWS_AT_ONCE = 20_000
_HEADERS = (
    '["Server","nginx/1.22.1","Date","Thu, 09 Oct 2025 08:53:20 GMT","Content-Type","text/html; charset=utf-8",'
    '"Content-Length","10240","Last-Modified","Wed, 08 Oct 2025 08:53:20 GMT","ETag","\\"68e62510-2800\\"",'
    '"Accept-Ranges","bytes"]'
)

Row = dict[str, Any]


def cache_row(pid: int, curl: str, change: int) -> Row:
    """A page of 10 KiB that was fetched as a certain change; its content file has the number of the change."""
    return empty_cache_row(url_key(pid, curl, "text/html"), pid) | {
        "state": CACHED,
        "change_number": change,
        "curl": curl,
        "mimetype": "text/html",
        "told_md5": f"{change:032x}",
        "md5": f"{change:032x}",
        "told_len": 10_240,
        "len": 10_240,
        "told_mtime": TIME,
        "mtime": TIME,
        "modified": TIME,
        "revalidate": 1,
        "status": 200,
        "charset": "utf-8",
        "etag": '"68e62510-2800"',
        "headers": _HEADERS,
        "fetched_time": TIME,
        "fetched_machineid": 1,
        "fetched_fileid": change,
        "confirmed_time": TIME,
    }


def page_url(number: int) -> str:
    """The conceptual URL of a page of the filled cache."""
    return f"http://s{number % 100}.example/docs/part{number % 10}/page{number}.html"


def fill_cache(url: str, home: Path, rows: int, first_pid: int = 1) -> None:
    """So many pages of a hundred providers, cached in no order of their keys.

    :param first_pid: of the providers.
    """
    database = opened(url, home)
    try:
        for first in range(1, rows + 1, ROWS_AT_ONCE):
            some = range(first, min(first + ROWS_AT_ONCE, rows + 1))
            database.write(_put, [cache_row(first_pid + n % 100, page_url(n), n) for n in some], some[-1])
    finally:
        database.close()


def change_some(url: str, home: Path, count: int, rows: int) -> None:
    """The next changes: so many pages of a cache with so many rows are fetched again."""
    numbers = Random(rows).sample(range(1, rows + 1), count)
    database = opened(url, home)
    try:
        changes = [cache_row(1 + n % 100, page_url(n), rows + i) for i, n in enumerate(numbers, 1)]
        database.write(_put, changes, rows + count)
    finally:
        database.close()


def put_files(url: str, home: Path, files: list[Path], add: Callable[[bytes], int]) -> list[str]:
    """Cache files as the pages of provider 1.

    :param add: keeps a content and gives its file id.
    :returns: the key of each, in hexadecimal digits.
    """
    rows = []
    for change, path in enumerate(files, 1):
        data = path.read_bytes()
        md5 = hashlib.md5(data).hexdigest()
        row = cache_row(1, f"http://files.example/{path.name}", change)
        rows.append(row | {"len": len(data), "md5": md5, "fetched_fileid": add(data)})
    database = opened(url, home)
    try:
        database.write(_put, rows, len(rows))
    finally:
        database.close()
    return [row["urlkey"].hex() for row in rows]


def _put(txn: Txn, rows: list[Row], change: int) -> None:
    ordered = sorted((list(row.values()) for row in rows), key=lambda values: bytes(values[0]))
    txn.upsert("lccurl", list(rows[0]), ordered, ["urlkey"])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [change])
