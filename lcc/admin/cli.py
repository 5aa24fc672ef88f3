"""``lcc-admin``: the operator's tool.

One module for each group of commands; the exit codes are in :mod:`lcc.admin.context`.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lcc.admin.context import Admin
from lcc.commands.errors import ToolGroup
from lcc.commands.examples import add_examples

COMMANDS = {
    "init": "initialise:init_command",
    "check": "checking:check_command",
    "config": "configuration:config_command",
    "completion": "completion:completion_command",
    "manual": "manual:manual_command",
    "certificates": "certificates:certificates_group",
    "provider": "providers:provider_group",
    "register": "register:register_group",
    "user": "users:user_group",
    "web-user": "web_users:web_user_group",
    "feed": "feeds:feed_group",
    "task": "tasks:task_group",
    "job": "jobs:job_group",
    "resource": "resources:resource_group",
    "urls": "urls:urls_command",
    "show": "show:show_command",
    "queue": "queue:queue_command",
    "status": "status:status_command",
    "top": "top:top_command",
    "why": "why:why_command",
    "explain": "explain:explain_command",
    "errors": "errors:errors_command",
    "fetch": "fetch:fetch_command",
    "retry": "repair:retry_command",
    "rebuild": "repair:rebuild_command",
    "fsck": "fsck:fsck_command",
    "console": "console:console_command",
    "console-password": "console:console_password_command",
}
"""Command -> where it is, in this package.  Each is imported when it is asked for."""


class Commands(ToolGroup):
    """All commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            module, _, attribute = COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(import_module(f"lcc.admin.{module}"), attribute)
            add_examples(command, f"lcc-admin {cmd_name}")
            self.add_command(command)
        return self.commands[cmd_name]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        umask = os.umask(0o077)  # whatever it makes is for this user alone
        try:
            return super().main(*args, **kwargs)
        finally:
            os.umask(umask)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file.  Default: lcc.toml in the current folder, if any.",
)
@click.version_option(package_name="lcc", prog_name="lcc-admin")
@click.pass_context
def main(context: click.Context, config_path: Path | None) -> None:
    """Administer an LCC.

    Exit codes: 0 success; 1 failure, or errors found; 2 usage error; 3 the changes since the token are no longer
    known; 4 database unreachable.
    """
    context.obj = Admin(config_path)


add_examples(main, "lcc-admin")
