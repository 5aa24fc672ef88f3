"""What every command of ``lcc-export`` needs: the LCC that it reads, plain words for what went wrong.

Exit codes: 0 done; 1 it cannot be done; 2 the command line is wrong, or the LCC does not take the question; 3 the
changes since this token are no longer known, start again; 4 the LCC cannot be reached, or its answer was cut off:
the same command may be given again.
"""

from __future__ import annotations

import os
import pwd
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from lcc.client.addresses import UNIX, AddressError, authorization
from lcc.client.blocking import Cache, CacheError, Refused, StartAgain
from lcc.commands.errors import Failed
from lcc.config import CU_SOCKET, load_config, unix_socket_path
from lcc.errors import ConfigError
from lcc.model.shellwords import shell_command

PROGRAM = "lcc-export"


class NotTaken(Failed):
    """The LCC does not answer this question."""

    exit_code = 2


class NoLongerKnown(Failed):
    """The changes since a token are no longer known."""

    exit_code = 3


class Unreachable(Failed):
    """The LCC cannot be reached, or its answer was cut off."""

    exit_code = 4


class Source:
    """The LCC that is read.

    :param config_path: its configuration; None: ``lcc.toml`` in this folder, else the defaults.
    :param address: where its HTTP interface is; None: as the configuration says.
    :param token_file: the first line of it is the token; None: ``LCC_TOKEN`` in the environment, else none.
    :param ca_file: certificate authorities for https; None: those of the system.
    """

    def __init__(
        self, config_path: Path | None, address: str | None, token_file: Path | None, ca_file: Path | None
    ) -> None:
        self._config_path = config_path
        self._address = address
        self._token_file = token_file
        self._ca_file = ca_file

    @contextmanager
    def cache(self) -> Iterator[Cache]:
        """The LCC, for reading; what goes wrong with it within the block ends the command with its exit code."""
        try:
            context = None if self._ca_file is None else ssl.create_default_context(cafile=str(self._ca_file))
        except (OSError, ssl.SSLError) as error:
            raise Failed(f"{self._ca_file}: {error}", "give a PEM file with CAs: --ca-file") from None
        try:
            with Cache(self._where(), self._token(), context=context) as cache:
                yield cache
        except AddressError as error:
            raise click.BadParameter(str(error), param_hint="--from") from None
        except StartAgain as error:
            raise NoLongerKnown(str(error), "start over with --rebuild, or without --since") from None
        except Refused as error:
            raise NotTaken(str(error), "change the request; see --help") from None
        except CacheError as error:
            raise Unreachable(str(error), self._advice()) from None

    def _where(self) -> str:
        if self._address is not None:
            return self._address
        return f"{UNIX}{self._socket()}"

    def _socket(self) -> Path:
        try:
            config = load_config(self._config_path)
        except ConfigError as error:
            raise Failed(str(error), "correct lcc.toml, or give the LCC with --from") from None
        return Path(unix_socket_path(config.endpoint(CU_SOCKET)))

    def _advice(self) -> str:
        """What to do if nothing answers."""
        if self._address is not None:
            return "check that its lcc-cu runs, and run the same command again"
        words = sys.argv[1:]
        user = _user_needed(self._socket())
        if user:
            return f"run it as the user of the LCC: {shell_command('sudo', '-u', user, PROGRAM, *words)}"
        given = () if self._token_file else ("--token-file", "token")
        elsewhere = shell_command(PROGRAM, "--from", "https://cache.example.org:9443", *given, *words)
        return f"start lcc-cu (or lcc) here, and run the same command again; for an LCC elsewhere: {elsewhere}"

    def _token(self) -> str | None:
        if self._token_file is None:
            token = os.environ.get("LCC_TOKEN", "").strip() or None
        else:
            try:
                token = self._token_file.read_text(encoding="ascii").split("\n")[0].strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Failed(
                    f"cannot read the token: {error}", "write it into the file given by --token-file"
                ) from None
        try:
            authorization(token)
        except AddressError as error:
            raise Failed(
                f"{self._token_file or 'LCC_TOKEN'}: {error}", "get one from the LCC's operator (lcc-admin user add)"
            ) from None
        return token


def _user_needed(socket: Path) -> str:
    """Who may use this socket; empty: this user may, or it is not there."""
    if os.access(socket, os.R_OK | os.W_OK, effective_ids=True):
        return ""
    for place in (socket, socket.parent):  # the folder may be closed, too
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        if owner == os.geteuid():
            return ""
        try:
            return pwd.getpwuid(owner).pw_name
        except KeyError:
            return f"#{owner}"
    return ""


pass_source = click.make_pass_decorator(Source)
