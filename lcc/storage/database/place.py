"""Where tables of a series are: on SQLite in a file of their own beside the main one, so that who writes them never
waits while the queue manager writes; on MySQL in the database of all the others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lcc.config import Config, DatabaseConfig
from lcc.errors import ConfigError
from lcc.storage.database.dialects import SqliteDialect, dialect_for
from lcc.storage.database.migrations import FE, MAIN


class Place(NamedTuple):
    """For a :class:`lcc.storage.database.database.Database`."""

    url: str
    home: Path
    series: str

    def is_there(self) -> bool:
        """Whether there is a file, if it is one; who only looks does not make it, for it would be theirs."""
        return self.series == MAIN or Path(self.url.removeprefix("sqlite:")).exists()


def place_of(config: Config, series: str) -> Place:
    """Where the tables of this series are.

    :param series: one with a file of its own, such as :data:`lcc.storage.database.migrations.TASKS`.
    :raises ConfigError: the URL of the database cannot be understood.
    """
    return place_beside(config.database.url, config.home, config.database, series)


def place_beside(url: str, home: Path, settings: DatabaseConfig, series: str) -> Place:
    """Where the tables of this series of the LCC with this database are.

    :param home: relative paths begin there.
    :raises ConfigError: the URL cannot be understood.
    """
    dialect = dialect_for(url, home, settings)
    if isinstance(dialect, SqliteDialect):
        return Place(f"sqlite:{dialect.path.with_name(f'{series}.sqlite').resolve()}", Path("/"), series)
    return Place(url, home, MAIN)


def front_end_place(config: Config) -> Place:
    """Where the front end's tables are.

    :raises ConfigError: there is no front end, or the URL of its database cannot be understood.
    """
    if not config.fe.database:
        raise ConfigError(["fe.database: must be set to the front end's database"])
    dialect = dialect_for(config.fe.database, config.home, config.database)
    if isinstance(dialect, SqliteDialect):
        return Place(f"sqlite:{dialect.path.resolve()}", Path("/"), FE)
    return Place(config.fe.database, config.home, FE)
