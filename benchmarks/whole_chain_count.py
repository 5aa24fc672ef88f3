"""Counting the cached rows, straight from the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lcc.config import Config


def open_counter(config: Config) -> Callable[[], int]:
    """A function that counts the cached rows of this LCC; its connection lives as long as the process."""
    url = config.database.url
    if url.startswith("sqlite:"):
        import sqlite3

        connection: Any = sqlite3.connect(config.under_home(url.removeprefix("sqlite:")), isolation_level=None)
    else:
        import pymysql

        parts = urlsplit(url)
        connection = pymysql.connect(
            unix_socket=parse_qs(parts.query)["unix_socket"][0],
            user=parts.username or "root",
            password=parts.password or "",
            database=parts.path.strip("/"),
            autocommit=True,
        )

    def count() -> int:
        cursor = connection.cursor()
        cursor.execute("SELECT SUM(files_used) FROM pstats")
        return int(cursor.fetchone()[0] or 0)

    return count
