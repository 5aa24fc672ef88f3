"""``lcccp``: sends ``<url>`` containers to a UNS and tells what became of them.

*Owns* a temporary file while it runs; puts the state file of ``lcccpstate`` in place.

*Strategy.*  Standard input is read to its end and checked before anything is sent, so that a program that died
upstream sends nothing; it waits in a temporary file, whatever its size.  Then one connection: init, what the LCC
says, the set with back-pressure, the answer.  A set without elements is sent only to acknowledge errors that the LCC
has just shown; otherwise the connection alone is made, so that a wanted full set is noticed.

*Failures.*  Exit codes: 0 accepted, 1 accepted with URL errors, 2 wrong usage or unusable input, 3 rejected by the
LCC, 4 unreachable or no answer.  On 2 and 3 nothing was taken; on 4 nobody may know, and the next run of
``lcccpstate`` sends again what may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from lcc.commands.errors import Tool
from lcc.commands.examples import add_examples
from lcc.domain.passwords import password_in
from lcc.provider.command import BadInput, in_words, next_step, run, standard_input
from lcc.provider.spool import Spool, spool_stream
from lcc.provider.statefile import StateBusy, StateFile
from lcc.provider.stream_format import StreamFault
from lcc.provider.submitter import Orders, Submitter


def given_password(pwd: str | None, pwd_file: Path | None) -> str:
    """The password, wherever it was given.

    :raises click.UsageError: it was not.
    """
    if pwd is not None and pwd_file is not None:
        raise click.UsageError("--pwd and --pwd-file cannot both be given")
    if pwd is not None:
        return pwd
    if pwd_file is not None:
        try:
            password = password_in(pwd_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise click.UsageError(f"--pwd-file: {pwd_file} does not exist") from None
        except OSError as error:
            raise click.UsageError(f"--pwd-file: cannot read {pwd_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise click.UsageError(f"--pwd-file: {pwd_file} is not UTF-8 text") from None
        if not password:
            raise click.UsageError(f"--pwd-file: the first line of {pwd_file} is empty")
        return password
    from_environment = os.environ.get("LCC_PASSWORD")
    if not from_environment:
        raise click.UsageError("no password: use --pwd-file, LCC_PASSWORD or --pwd")
    return from_environment


_UNS_OPTIONS = (
    click.option("--uns", required=True, help="The UNS: HOST:PORT, or an endpoint such as unix:PATH."),
    click.option("--tls", is_flag=True, help="Connect to HOST:PORT over TLS; its certificate must match HOST."),
    click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="PEM file with CAs for TLS.  Default: those of the system.",
    ),
    click.option("--pid", required=True, type=click.IntRange(1, 2**32 - 1), help="The provider's id."),
    click.option(
        "--pwd", help="The provider's password.  Visible to other users of this machine: prefer --pwd-file."
    ),
    click.option(
        "--pwd-file", type=click.Path(dir_okay=False, path_type=Path), help="File whose first line is the password."
    ),
    click.option("--urlprefix", default="", help="Prefix of relative URLs, such as http://site/."),
    click.option(
        "--timeout", default=300.0, type=click.FloatRange(0.01), help="Timeout in seconds without data from the LCC."
    ),
)


def uns_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of who talks to a UNS."""
    for option in reversed(_UNS_OPTIONS):
        function = option(function)
    return function


@click.command(cls=Tool)
@uns_options
@click.option("--full", is_flag=True, help="The input is the whole site: the LCC deletes everything else.")
@click.option("--allow-mass-delete", is_flag=True, help="Send a full set even if it is empty.")
@click.option("--allow-deletions", is_flag=True, help="Carry out mass deletions that the LCC holds for confirmation.")
@click.option("--check", is_flag=True, help="Only connect and show the provider's state; standard input is not read.")
@click.option(
    "--statefile",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --check: record here if the LCC wants a full set.",
)
@click.option("--no-end-mark", is_flag=True, help="Accept hand-made input without an end mark.")
@click.option(
    "--retries", default=0, type=click.IntRange(0, 1000), help="Retries if the LCC is unreachable or does not answer."
)
@click.option("--show-errors", default=20, type=click.IntRange(0), help="Number of URL errors to print.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and warnings.")
@click.version_option(package_name="lcc", prog_name="lcccp")
def command(
    uns: str,
    tls: bool,
    ca_file: Path | None,
    pid: int,
    pwd: str | None,
    pwd_file: Path | None,
    urlprefix: str,
    full: bool,
    allow_mass_delete: bool,
    allow_deletions: bool,
    check: bool,
    statefile: Path | None,
    no_end_mark: bool,
    timeout: float,
    retries: int,
    show_errors: int,
    quiet: bool,
) -> None:
    """Send the <url> containers on standard input to the update notification server of an LCC.

    \b
    Exit codes: 0 accepted; 1 accepted, but some URLs were refused; 2 usage error
    or unusable input; 3 rejected by the LCC; 4 unreachable, or the response was
    lost.

    Give the password with --pwd-file or in the environment variable LCC_PASSWORD.
    """
    password = given_password(pwd, pwd_file)
    if urlprefix and "://" not in urlprefix:
        raise click.UsageError(f"--urlprefix: {urlprefix} does not look like http://site/")
    if statefile is not None and not check:
        raise click.UsageError("--statefile requires --check; otherwise the stream names the file")
    if allow_deletions and check:
        raise click.UsageError("--allow-deletions cannot be combined with --check")
    if ca_file is not None and not (tls or uns.startswith("tls:")):
        raise click.UsageError("--ca-file requires --tls")
    orders = Orders(
        uns, pid, password, urlprefix, timeout, retries, show_errors, quiet, tls, ca_file, allow_deletions
    )
    with ExitStack() as stack:
        spool = None
        state = None if statefile is None else StateFile(statefile)
        if not check:
            spool = stack.enter_context(_spooled(full, allow_mass_delete, no_end_mark))
            if spool.statefile is not None:
                state = StateFile(spool.statefile)
                _claim(stack, state, spool.token)
        _run(Submitter(orders, spool, state))


def _spooled(full: bool, allow_mass_delete: bool, no_end_mark: bool) -> Spool:
    source = standard_input(BadInput, "reading <url> containers")
    try:
        return spool_stream(source, full, allow_mass_delete, not no_end_mark)
    except (StreamFault, OSError) as fault:
        raise BadInput(f"{in_words(fault)}; nothing was sent", next_step(fault)) from None


def _claim(stack: ExitStack, state: StateFile, token: str) -> None:
    """Lock the state until the response is there."""
    try:
        stack.enter_context(state.locked())
        current = state.pending_token()
    except (StateBusy, OSError) as fault:
        raise BadInput(f"{in_words(fault)}; nothing was sent", next_step(fault)) from None
    if current != token:
        raise BadInput(
            f"another run of lcccpstate has since changed {state.pending}; nothing was sent",
            "run the whole pipeline again, without overlapping runs",
        )


def _run(submitter: Submitter) -> None:
    # Only now: this brings in much of Twisted, and a usage error should be quick.
    from lcc.commands.boottime import react

    async def submit(reactor: Any) -> None:
        raise SystemExit(await submitter.start(reactor))

    react(submit, ())


add_examples(command, "lcccp")


def main() -> None:
    """The console script."""
    run(command, "lcccp")
