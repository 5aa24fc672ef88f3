"""``lcc-admin``: the operator's tool.

One module for each group of commands; the exit codes are in :mod:`lcc.admin.context`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from lcc.admin.certificates import certificates_group
from lcc.admin.checking import check_command
from lcc.admin.configuration import config_command
from lcc.admin.console import console_command, console_password_command
from lcc.admin.context import Admin
from lcc.admin.errors import errors_command
from lcc.admin.fetch import fetch_command
from lcc.admin.fsck import fsck_command
from lcc.admin.initialise import init_command
from lcc.admin.providers import provider_group
from lcc.admin.queue import queue_command
from lcc.admin.register import register_group
from lcc.admin.repair import rebuild_command, retry_command
from lcc.admin.show import show_command
from lcc.admin.status import status_command
from lcc.admin.urls import urls_command
from lcc.admin.users import user_group
from lcc.admin.web_users import web_user_group
from lcc.admin.why import why_command


class Commands(click.Group):
    """All commands; a line, not a traceback, where the system does not let them do what they should."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        umask = os.umask(0o077)  # whatever it makes is for this user alone
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            click.echo(f"Error: {error}", err=True)
            with suppress(OSError, ValueError):
                # What is left of the output must not be tried again at the interpreter's end.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, sys.stdout.fileno())
                os.close(null)
            sys.exit(1)
        finally:
            os.umask(umask)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The configuration.  Without: lcc.toml in this folder, else the defaults.",
)
@click.version_option(package_name="lcc", prog_name="lcc-admin")
@click.pass_context
def main(context: click.Context, config_path: Path | None) -> None:
    """Set up and look into an LCC.

    Exit codes: 0 done; 1 it cannot be done, or faults were found; 2 the command line is wrong; 3 the changes since
    the token are no longer known; 4 the database cannot be reached.
    """
    context.obj = Admin(config_path)


for _command in (
    init_command,
    check_command,
    config_command,
    certificates_group,
    provider_group,
    register_group,
    user_group,
    web_user_group,
    urls_command,
    show_command,
    queue_command,
    status_command,
    why_command,
    errors_command,
    fetch_command,
    retry_command,
    rebuild_command,
    fsck_command,
    console_command,
    console_password_command,
):
    main.add_command(_command)
