"""Shared by all commands of ``lcc-admin``: configuration, database, error reporting.

Exit codes: 0 done; 1 it cannot be done, or faults were found; 2 the command line is wrong; 3 the changes since this
token are no longer known, start again; 4 the database cannot be reached.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from random import Random

import attrs
import click
import pymysql

from lcc.commands.errors import Failed
from lcc.config import Config, load_config
from lcc.errors import ConfigError, StoreFull, StoreUnavailable
from lcc.model import Provider
from lcc.model.frontend.places import SubLcc
from lcc.model.shellwords import shell_command
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.dialects import SqliteDialect, dialect_for
from lcc.storage.database.migrations import MAIN, SchemaError
from lcc.storage.database.place import Place, front_end_place
from lcc.storage.providers.providers import ProviderMoves, get_provider
from lcc.storage.providers.watched import SiteMoved

SEE_PROVIDERS = "lcc-admin provider list shows all providers"
NAME_ONE = "give an existing file, or create this one: lcc-admin"
SEE_CHECK = "correct lcc.toml; lcc-admin config --defaults explains every setting"
SEE_UPGRADE = "use the version of the LCC that wrote these tables, or restore an earlier backup (doc/backup.md)"
SEE_MOVED = (
    "lcc-admin fe where {pid}, with the front end's configuration, shows where it is; if it has been removed there:"
    " lcc-admin provider add --moved"
)
SEE_MOVES = "try again when it has; lcc-admin moves, with the front end's configuration, shows how far it is"
SEE_FRONT_END = "set [fe] database in lcc.toml (doc/front-end.md), then run lcc-admin fe init"
SEE_DATABASE = "check that it runs, and [database] url in lcc.toml; lcc-admin check tests the connection"

RETRIES = 3
"""A person is waiting: give up sooner than the roles do."""


class NoLongerKnown(Failed):
    """The changes since a token are no longer known."""

    exit_code = 3


class DatabaseFailed(Failed):
    """The database cannot be reached or used."""

    exit_code = 4


class Admin:
    """
    :ivar config_path: what ``--config`` said; None: the defaults.
    """

    def __init__(self, config_path: Path | None) -> None:
        self.config_path = config_path

    @cached_property
    def config(self) -> Config:
        """The configuration.

        :raises Failed: with every fault of it.
        """
        try:
            return load_config(self.config_path)
        except ConfigError as error:
            path = self.config_path
            missing = path is not None and not path.exists()
            raise Failed(
                str(error), f"{NAME_ONE} {shell_command('--config', path, 'init')}" if missing else SEE_CHECK
            ) from None

    def now(self) -> int:
        """Seconds since 1970."""
        return int(time.time())

    @contextmanager
    def database(self, create: bool = False, *, patient: bool = True) -> Iterator[BlockingDatabase]:
        """The database, its tables brought up to date at first use.

        :param create: make its file, if it is one and there is none.
        :param patient: False: do not retry.
        :raises Failed: when it cannot be reached or used.
        """
        if not create:
            self._must_be_there()
        with self._opened(self.config.database.url, self.config.home, MAIN, patient) as database:
            yield database

    @contextmanager
    def database_at(self, place: Place, *, patient: bool = True) -> Iterator[BlockingDatabase]:
        """The tables of tasks, which are made at first use.

        :param patient: False: do not retry.
        :raises Failed: they cannot be reached or used.
        """
        self._must_be_there()
        with self._opened(place.url, place.home, place.series, patient) as database:
            yield database

    @contextmanager
    def front_end(self, create: bool = False, *, patient: bool = True) -> Iterator[BlockingDatabase]:
        """The front end's database.

        :param create: make its file, if it is one and there is none.
        :param patient: False: do not retry.
        :raises Failed: there is none, or it cannot be reached or used.
        """
        try:
            place = front_end_place(self.config)
        except ConfigError as error:
            raise Failed(str(error), SEE_FRONT_END) from None
        if not create and place.url.startswith("sqlite:") and not place.is_there():
            path = place.url.removeprefix("sqlite:")
            raise DatabaseFailed(
                f"no front end here: the database {path} does not exist",
                "run lcc-admin fe init; if it was lost, restore a backup, or see Repair in doc/front-end.md",
            )
        with self._opened(place.url, place.home, place.series, patient) as database:
            yield database

    @contextmanager
    def accounts(self) -> Iterator[BlockingDatabase]:
        """The database of registrations and content users: of the LCC, or of the front end.

        :raises Failed: it cannot be reached or used.
        """
        with self.front_end() if self.config.is_front_end else self.database() as database:
            yield database

    @contextmanager
    def sublcc(self, sub: SubLcc) -> Iterator[BlockingDatabase]:
        """The database of a sub-LCC.

        :raises Failed: it cannot be reached or used.
        """
        place = Place(sub.database, self.config.home, MAIN)
        if place.url.startswith("sqlite:") and not Path(place.url.removeprefix("sqlite:")).exists():
            raise DatabaseFailed(f"sub-LCC {sub.name}: there is no {place.url}", "run lcc-admin init for it first")
        with self._opened(place.url, place.home, place.series, patient=True) as database:
            yield database

    @contextmanager
    def _opened(self, url: str, home: Path, series: str, patient: bool) -> Iterator[BlockingDatabase]:
        settings = attrs.evolve(
            self.config.database, url=url, retries=min(self.config.database.retries, RETRIES if patient else 0)
        )
        try:
            database = BlockingDatabase(url, home, settings, random=Random(), series=series)
        except (ConfigError, OSError) as error:
            raise DatabaseFailed(f"cannot use the database: {error}", SEE_DATABASE) from None
        try:
            yield database
        except SchemaError as error:
            raise DatabaseFailed(f"cannot use the database: {error}", SEE_UPGRADE) from None
        except StoreFull as error:
            raise DatabaseFailed(f"cannot write to the database: {error}", "do so, then try again") from None
        except ProviderMoves as error:
            raise Failed(error.detail, SEE_MOVES) from None
        except SiteMoved as error:
            raise Failed(error.text, SEE_MOVED.format(pid=error.pid)) from None
        except (StoreUnavailable, sqlite3.Error, pymysql.MySQLError) as error:
            raise DatabaseFailed(f"cannot reach the database: {error}", SEE_DATABASE) from None
        finally:
            database.close()

    def _must_be_there(self) -> None:
        settings = self.config.database
        try:
            dialect = dialect_for(settings.url, self.config.home, settings)
            if isinstance(dialect, SqliteDialect) and not dialect.path.exists():
                raise DatabaseFailed(
                    f"no LCC here: the database {dialect.path} does not exist",
                    "run lcc-admin init, or give the configuration with --config",
                )
        except (ConfigError, OSError) as error:
            raise DatabaseFailed(f"cannot use the database: {error}", SEE_DATABASE) from None


def existing(provider: Provider | None, pid: int) -> Provider:
    """The provider that was looked up.

    :raises Failed: there is none.
    """
    if provider is None:
        raise Failed(f"there is no provider {pid}", SEE_PROVIDERS)
    return provider


def check_provider(database: BlockingDatabase, pid: int | None) -> None:
    """Check that a given provider exists; None: none was given.

    :raises Failed: it is not.
    """
    if pid is not None:
        existing(database.interact(get_provider, pid), pid)


pass_admin = click.make_pass_decorator(Admin)
