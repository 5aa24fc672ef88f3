"""``lcc-admin console``: ssh to the console of a role on this host, and passwords for that."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import sys
from typing import Any

import click

from lcc.admin.context import Admin, pass_admin
from lcc.admin.values import password_file_option, read_password
from lcc.commands.errors import Failed
from lcc.config import ROLES, Config, unix_socket_path
from lcc.console.credentials import UnsafeFile, read_trusted, with_password
from lcc.console.hostkey import ALIAS, known_hosts
from lcc.storage.disk.durable import write_durably
from lcc.storage.providers.passwords import generate_password

ALL = "lcc"
"""The console of all roles in one process."""


@click.command("console")
@click.argument("role", type=click.Choice([ALL, *ROLES]), required=False)
@click.argument("command", required=False)
@click.option("--user", default="", help="Login name.  Default: your user name.")
@click.option("--identity", type=click.Path(exists=True, dir_okay=False), help="Private key for ssh.")
@pass_admin
def console_command(admin: Admin, role: str | None, command: str | None, user: str, identity: str | None) -> None:
    """Open the console of a ROLE on this host with ssh, or run one COMMAND there: lcc-admin console qm 'est()'.

    Without ROLE, the only configured console is opened.  See doc/console.md for its commands.
    """
    consoles = configured(admin.config)
    if not consoles:
        raise Failed(
            "no console is configured",
            "set [manhole] listen, or manhole in a role's section, and restart the role",
        )
    if role is None:
        if len(consoles) > 1:
            raise click.UsageError(f"choose a ROLE: {', '.join(consoles)}")
        role = next(iter(consoles))
    if role not in consoles:
        raise Failed(
            f"no console is configured for {role}, only for {', '.join(consoles)}",
            f"choose one of these, or set manhole in [{role}]",
        )
    program = shutil.which("ssh")
    if program is None:
        raise Failed("ssh is not installed", "install it (on Debian: the package openssh-client)")
    known = known_hosts(admin.config.under_home(admin.config.manhole.host_key))
    if not known.exists():
        raise Failed(f"{known} does not exist: the console has never been started", "start the role")
    arguments = ["ssh", "-o", f"UserKnownHostsFile={known}", "-o", f"HostKeyAlias={ALIAS}"]
    arguments += ["-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=/dev/null"]
    arguments += ["-l", user or getpass.getuser()]
    if identity:
        arguments += ["-i", identity, "-o", "IdentitiesOnly=yes"]
    arguments += _place(consoles[role])
    if command is not None:
        arguments.append(command)
    sys.stdout.flush()
    os.execv(program, arguments)


@click.command("console-password")
@click.argument("name")
@password_file_option
@pass_admin
def console_password_command(admin: Admin, name: str, password_file: Any) -> None:
    """Set NAME's console password; print a generated one."""
    generated = password_file is None
    password = generate_password() if generated else read_password(password_file)
    path = admin.config.under_home(admin.config.manhole.passwords)
    try:
        text = with_password(read_trusted(path), name, password, generated=generated)
    except (UnsafeFile, ValueError) as error:
        raise Failed(str(error), "fix that file, or its mode, and try again") from None
    if not path.parent.is_dir():
        raise Failed(
            f"there is not a folder {path.parent}", "run lcc-admin init, or give the configuration with --config"
        )
    write_durably(path, text.encode())
    click.echo(f"password: {password}" if generated else "password: as given")


def configured(config: Config) -> dict[str, str]:
    """The endpoints of the consoles that the configuration names, by role."""
    found = {ALL: config.manhole.listen, **{role: getattr(config, role).manhole for role in ROLES}}
    return {role: config.endpoint(endpoint) for role, endpoint in found.items() if endpoint}


def _place(endpoint: str) -> list[str]:
    """How ssh gets to this endpoint."""
    path = unix_socket_path(endpoint)
    if path:
        relay = shlex.join([sys.executable, "-m", "lcc.admin.processes.relay", path]).replace("%", "%%")
        return ["-o", f"ProxyCommand={relay}", ALIAS]
    port = re.search(r":(?:port=)?(\d+)", endpoint)
    address = re.search(r"interface=((?:\\.|[^\\:])*)", endpoint)
    if port is None or address is None:
        raise Failed(f"ssh cannot connect to {endpoint}", "set it to unix:PATH or tcp:PORT:interface=127.0.0.1")
    return ["-p", port[1], re.sub(r"\\(.)", r"\1", address[1])]
