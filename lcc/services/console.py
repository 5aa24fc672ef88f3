"""The console scripts ``lcc``, ``lcc-uns``, …: a role in the foreground, where ``twistd`` is not on the path.

``lcc-uns --config lcc.toml`` is ``twistd --nodaemon --pidfile= lcc-uns --config lcc.toml``, except that a start that
fails is told in a line and by the exit code: 1 when the role could not start, 2 when the options or the configuration
cannot be used.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from twisted.python import usage

from lcc.services.process.start_errors import START_FAULTS, start_error_lines


def run(role: str, arguments: list[str]) -> None:
    """Run a role until it is stopped.

    :param role: the name of its ``twistd`` plugin.
    :param arguments: the script's arguments.
    :raises SystemExit: always, with its exit code.
    """
    complete(role)
    # Late, as it is heavy; by name, as its stubs do not export what twistd's own main function consists of.
    twistd: Any = import_module("twisted.scripts.twistd")
    options = twistd.ServerOptions()
    try:
        options.parseOptions(["--nodaemon", "--pidfile=", role, *arguments])
    except usage.UsageError as error:
        next_step = getattr(error, "next_step", f"{role} --help")
        print(f"{role}: {error}\nNext: {next_step}", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        twistd.runApp(options)
    except START_FAULTS as error:
        for line in start_error_lines(error):
            print(f"{role}: {line}", file=sys.__stderr__)  # sys.stderr leads to the log by now
        raise SystemExit(1) from None
    raise SystemExit(0)


def complete(role: str) -> None:
    """Complete this role's command line for a shell (``lcc-admin completion``).

    :raises SystemExit: it did.
    """
    how = os.environ.get(f"_{role.replace('-', '_').upper()}_COMPLETE")
    if how:
        # By name: a role needs nothing of lcc-admin to run.
        raise SystemExit(import_module("lcc.admin.help.completion").complete_role(role, how))


def lcc() -> None:
    """All roles."""
    run("lcc", sys.argv[1:])


def uns() -> None:
    """The update notification server."""
    run("lcc-uns", sys.argv[1:])


def qm() -> None:
    """The queue manager."""
    run("lcc-qm", sys.argv[1:])


def botm() -> None:
    """The robot multiplexer."""
    run("lcc-botm", sys.argv[1:])


def bot() -> None:
    """The robot."""
    run("lcc-bot", sys.argv[1:])


def manager() -> None:
    """The manager of jobs."""
    run("lcc-manager", sys.argv[1:])


def cu() -> None:
    """The content user API."""
    run("lcc-cu", sys.argv[1:])


def rs() -> None:
    """The registration server."""
    run("lcc-rs", sys.argv[1:])


def web() -> None:
    """The web monitor."""
    run("lcc-web", sys.argv[1:])


def scheduler() -> None:
    """The scheduler of periodic tasks."""
    run("lcc-scheduler", sys.argv[1:])


def spider() -> None:
    """The spider, which follows links."""
    run("lcc-spider", sys.argv[1:])


def push() -> None:
    """The push server."""
    run("lcc-push", sys.argv[1:])


def fe_uns() -> None:
    """The front end's proxy of UNSes."""
    run("lcc-fe-uns", sys.argv[1:])


def fe_rs() -> None:
    """The front end's registration server."""
    run("lcc-fe-rs", sys.argv[1:])


def fe_cu() -> None:
    """The front end's content user API."""
    run("lcc-fe-cu", sys.argv[1:])


def search() -> None:
    """The search server."""
    run("lcc-search", sys.argv[1:])
