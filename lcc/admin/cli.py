"""``lcc-admin``: the operator's tool.

A folder for each subject, in it a module for each group of commands; the exit codes are in :mod:`lcc.admin.context`.
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
    "init": "setup.initialise:init_command",
    "check": "setup.checking:check_command",
    "config": "setup.configuration:config_command",
    "completion": "help.completion:completion_command",
    "manual": "help.manual:manual_command",
    "certificates": "setup.certificates:certificates_group",
    "provider": "accounts.providers:provider_group",
    "register": "accounts.register:register_group",
    "user": "accounts.users:user_group",
    "web-user": "accounts.web_users:web_user_group",
    "feed": "feeds.feeds:feed_group",
    "sitemap": "feeds.sitemaps:sitemap_group",
    "resync": "feeds.resync:resync_group",
    "spider": "spider.crawls:spider_group",
    "push": "push.keys:push_group",
    "search": "search.words:search_group",
    "task": "tasks.tasks:task_group",
    "job": "tasks.jobs:job_group",
    "resource": "tasks.resources:resource_group",
    "fe": "frontend.sublccs:fe_group",
    "move": "frontend.moves:move_command",
    "moves": "frontend.moves:moves_command",
    "split": "frontend.moves:split_command",
    "urls": "cache.urls:urls_command",
    "show": "cache.show:show_command",
    "queue": "queue.queue:queue_command",
    "status": "processes.status:status_command",
    "top": "processes.top:top_command",
    "why": "queue.why:why_command",
    "explain": "help.explain:explain_command",
    "errors": "queue.errors:errors_command",
    "fetch": "cache.fetch:fetch_command",
    "retry": "queue.repair:retry_command",
    "rebuild": "queue.repair:rebuild_command",
    "fsck": "queue.fsck:fsck_command",
    "console": "processes.console:console_command",
    "console-password": "processes.console:console_password_command",
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

if __name__ == "__main__":  # for the web monitor
    main(prog_name="lcc-admin")
