"""``lcc-admin init``: a home folder, a configuration to start from, and the tables."""

from __future__ import annotations

from pathlib import Path

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.setup.configuration import read_sample
from lcc.commands.errors import Failed
from lcc.config import DEFAULT_FILE
from lcc.storage.database.migrations import HUB, PUSH, SPIDER, TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.tables.status import database_epoch


@click.command("init")
@pass_admin
def init_command(admin: Admin) -> None:
    """Create lcc.toml, home folder and database tables.

    Existing files are kept; existing tables are upgraded.  Without --config, lcc.toml is created in the
    current folder.
    """
    if admin.config_path is None:
        admin.config_path = Path(DEFAULT_FILE)
    if not admin.config_path.exists():
        _write_sample(admin.config_path)
        click.echo(f"Created {admin.config_path} with default settings; edit it as needed.")
    home = admin.config.home
    try:
        if not home.is_dir():
            home.mkdir(mode=0o700, parents=True)
            click.echo(f"Created the home folder {home}.")
    except OSError as error:
        raise Failed(f"cannot create the home folder: {error}", "set home in lcc.toml to another folder") from None
    with admin.database(create=True) as database:
        database.interact(database_epoch)  # the first use makes the tables, or brings them up to date
    for series in (TASKS, SPIDER, PUSH, HUB):
        with admin.database_at(place_of(admin.config, series)) as database:
            database.interact(database_epoch)
    click.echo("The database is ready.")


def _write_sample(path: Path) -> None:
    sample = read_sample("lcc.toml").encode()
    try:
        with path.open("xb") as file:
            file.write(sample)
    except OSError as error:
        raise Failed(
            f"cannot write the configuration: {error}", "change to a writable folder, or use --config"
        ) from None
