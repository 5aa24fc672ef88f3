"""Where the tables of tasks are: on SQLite in a file of their own, ``tasks.sqlite`` beside the main one, so that the
scheduler never waits while the queue manager writes; on MySQL in the database of all the others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lcc.config import Config
from lcc.storage.database.dialects import SqliteDialect, dialect_for
from lcc.storage.database.migrations import MAIN, TASKS

TASKS_FILE = "tasks.sqlite"


class Place(NamedTuple):
    """For a :class:`lcc.storage.database.database.Database`."""

    url: str
    home: Path
    series: str

    def is_there(self) -> bool:
        """Whether there is a file, if it is one; who only looks does not make it, for it would be theirs."""
        return self.series == MAIN or Path(self.url.removeprefix("sqlite:")).exists()


def place_of_tasks(config: Config) -> Place:
    """Where they are.

    :raises ConfigError: the URL of the database cannot be understood.
    """
    dialect = dialect_for(config.database.url, config.home, config.database)
    if isinstance(dialect, SqliteDialect):
        return Place(f"sqlite:{dialect.path.with_name(TASKS_FILE).resolve()}", Path("/"), TASKS)
    return Place(config.database.url, config.home, MAIN)
