"""``lcc-admin`` as tests call it, on an LCC of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner, Result

from lcc.admin.cli import main
from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.tables.rows import CACHED, empty_cache_row
from lcc.storage.database.transactions import Txn

CONTENT = {
    "state": CACHED,
    "mimetype": "text/html",
    "md5": "0123456789abcdef0123456789abcdef",
    "len": 12,
    "mtime": 1_700_000_000,
    "status": 200,
    "fetched_time": 1_700_000_001,
    "fetched_machineid": 1,
}
"""What a test's row of the cache has, as far as the test does not say otherwise."""


class Lcc:
    """An LCC's configuration and tables, without its roles."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.config_path = folder / "lcc.toml"
        self.config_path.write_text(f'home = "home"\n[database]\nurl = "{database_url}"\n')

    def admin(self, *arguments: str, code: int = 0, text: str | None = None) -> Result:
        """Run a command that must end with this code."""
        result = CliRunner().invoke(main, ["--config", str(self.config_path), *arguments], input=text)
        unforeseen = result.exception if not isinstance(result.exception, SystemExit) else None
        assert unforeseen is None and result.exit_code == code, (result.output, result.exc_info)
        return result

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects that a command prints with --json."""
        return [json.loads(line) for line in self.admin(*arguments, "--json").stdout.splitlines()]

    def database(self) -> BlockingDatabase:
        config = load_config(self.config_path)
        return BlockingDatabase(config.database.url, config.home, config.database, random=Random(1))

    def write(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run an interaction."""
        database = self.database()
        try:
            return database.write(function, *arguments)
        finally:
            database.close()

    def put(self, rows: Sequence[dict[str, Any]]) -> None:
        """Put rows into the cache, with the next change numbers, as the queue manager would.

        A row names at least ``key`` (a small number); ``pid`` is 1 unless given.
        """
        self.write(_put, rows)


def _put(txn: Txn, rows: Sequence[dict[str, Any]]) -> None:
    number = int(txn.value("SELECT value FROM counters WHERE name = 'change'"))
    for row in rows:
        number += 1
        name, pid = row["key"], row.get("pid", 1)
        key = pid.to_bytes(4, "big") + name.to_bytes(16, "big")
        own = {"curl": f"http://www.example.org/{name}.html", "fetched_fileid": name, "change_number": number}
        fields = {**empty_cache_row(key, pid), **CONTENT, **own, **row}
        del fields["key"]
        txn.execute("DELETE FROM lccurl WHERE urlkey = ?", [fields["urlkey"]])
        txn.insert("lccurl", list(fields), [tuple(fields.values())])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [number])
