"""Whether there is room for the database, where that is a file."""

from __future__ import annotations

from lcc.config import Config
from lcc.storage.database.dialects import SqliteDialect, dialect_for
from lcc.storage.disk.file_system import Disk

DATABASE_BYTES = 32 << 20
"""With less than this left a SQLite file is about to have no room."""


def database_disk(config: Config, disk: Disk) -> str:
    """Why the disk of a SQLite file is as good as full; empty: it is not, or the database is elsewhere."""
    dialect = dialect_for(config.database.url, config.home, config.database)
    if not isinstance(dialect, SqliteDialect):
        return ""
    folder = dialect.path.parent
    free = disk.space(folder).free_bytes
    return f"{folder}: only {free:,} bytes free on its disk: free some space" if free < DATABASE_BYTES else ""
