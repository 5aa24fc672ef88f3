"""Which database a test with real processes runs on.

Without a word, on both.  What does not depend on the database, and takes long, runs on one of them in ``make test``
and on both in ``make test-long``.
"""

from __future__ import annotations

import pytest


def _always(first: str, second: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "database_url", [first, pytest.param(second, marks=pytest.mark.long)], indirect=True
    )


SQLITE_ALWAYS = _always("sqlite", "mariadb")
MARIADB_ALWAYS = _always("mariadb", "sqlite")


def by_turns(name: str, *values: str) -> pytest.MarkDecorator:
    """Each value of this parameter always on one database, by turns, and on both in ``make test-long``."""
    databases = ("sqlite", "mariadb")
    return pytest.mark.parametrize(
        f"database_url, {name}",
        [
            pytest.param(database, value, marks=[pytest.mark.long] if (turn + number) % 2 else [])
            for number, database in enumerate(databases)
            for turn, value in enumerate(values)
        ],
        indirect=["database_url"],
    )
