"""``lcccpstate``: a filter that lets through only what changed on a site since its last accepted submission.

*Owns* the state file and what stands beside it (:mod:`lcc.provider.statefile`), together with ``lcccp``.

*Strategy.*  Standard input brings the ``<url>`` containers of the entire site; standard output gets a deletion for
each that is gone, then those that were added or changed, then an end mark.  The new state is written as a pending
one, durable before the end mark goes out, and named in the stream's header; ``lcccp`` puts it in place when the UNS
accepted.  If the LCC asked for a full set at the last connection, or held deletions were released there,
everything is let through, as a full set.

*Failures.*  An input without an end mark, one that would delete more than half of the site or names no URL at all, a
state file that is damaged or in use: a message, exit code 1, no end mark (so that ``lcccp`` sends nothing), the state
untouched.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import click

from lcc.commands.errors import Tool
from lcc.commands.examples import add_examples
from lcc.provider.command import Fault, in_words, next_step, run, standard_input
from lcc.provider.site_diff import Difference, SiteFault, compare
from lcc.provider.statefile import DELETIONS_RELEASED, StateDamaged, StateFault, StateFile, StateWriter
from lcc.provider.stream_format import Header, StreamFault, StreamReader, StreamWriter, read_elements

_RELEASED = "lcccp --allow-deletions carried out deletions: the LCC may have fewer URLs than the state file says"


@click.command(cls=Tool)
@click.option("--statefile", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The state file.")
@click.option("--urlprefix", default="", help="The --urlprefix of lcccp; only needed if it is new.")
@click.option("--full", is_flag=True, help="Send everything, as a full set.")
@click.option("--retry-failed", is_flag=True, help="Submit URLs that could not be fetched again at once.")
@click.option("--allow-mass-delete", is_flag=True, help="Allow deletion of more than half of the site.")
@click.option("--no-end-mark", is_flag=True, help="Accept hand-made input without an end mark.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors.")
@click.version_option(package_name="lcc", prog_name="lcccpstate")
def command(
    statefile: Path,
    urlprefix: str,
    full: bool,
    retry_failed: bool,
    allow_mass_delete: bool,
    no_end_mark: bool,
    quiet: bool,
) -> None:
    """Read the <url> containers of an ENTIRE site, and write those added, changed or deleted since the last accepted
    submission.

    Use it between file2url and lcccp; lcccp saves the new state once the LCC has accepted the set.
    """
    if urlprefix and "://" not in urlprefix:
        raise click.UsageError(f"--urlprefix: {urlprefix} does not look like http://site/")
    source = standard_input(Fault, "reading <url> containers")
    state = StateFile(statefile)
    try:
        with state.locked():
            site = read_elements(source, StreamReader(not no_end_mark))
            sink = filter_site(
                site,
                sys.stdout.buffer,
                state,
                urlprefix,
                full=full,
                retry_failed=retry_failed,
                allow_mass_delete=allow_mass_delete,
                quiet=quiet,
            )
        # Outside of the lock: lcccp takes it as soon as it has seen the end mark.
        try:
            sink.end()
        except OutputFailed:
            state.discard(sink.token)  # nobody has an end mark
            raise
    except OutputFailed as failed:
        raise failed.error from None
    except (StateFault, SiteFault, StreamFault) as fault:
        raise Fault(f"{in_words(fault)}; nothing is sent", next_step(fault)) from None
    except OSError as error:
        raise Fault(f"{in_words(error)}; nothing is sent", next_step(error)) from None


class OutputFailed(Exception):
    """Standard output takes no more; all other errors of the system are those of state and input."""

    def __init__(self, error: OSError) -> None:
        self.error = error


class Sink(StreamWriter):
    """The output, with what its end mark will say.

    :ivar token: of the pending state that belongs to it.
    """

    difference: Difference

    def __init__(self, sink: IO[bytes], header: Header) -> None:
        super().__init__(sink, header)
        self.token = header.token

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputFailed(error) from None

    def end(self) -> None:
        """Write the end mark."""
        found = self.difference
        self.close(found.added, found.changed, found.deleted, found.retold, found.resolved, found.waiting)


def filter_site(
    site: Iterable[dict[str, str]],
    output: IO[bytes],
    state: StateFile,
    urlprefix: str,
    *,
    full: bool = False,
    retry_failed: bool = False,
    allow_mass_delete: bool = False,
    quiet: bool = False,
    program: str = "lcccpstate",
) -> Sink:
    """Write what must be sent, but for the end mark, and the pending state.

    :param site: all elements of the site.
    :param state: locked.
    :param program: who speaks.
    :raises StateFault, SiteFault, StreamFault, OSError: nothing may be sent.
    """
    wanted = state.full_set_wanted()
    if wanted and not full:
        full = True
        if not quiet:
            released = wanted == DELETIONS_RELEASED
            why = _RELEASED if released else f"the LCC asked for a full set ({wanted})"
            click.echo(f"{program}: {why}: sending everything", err=True)
    token = os.urandom(16).hex()
    try:
        adopted = state.adopt_pending(token)
    except StateFault:
        if not full:
            names = f"{state.path}, {state.pending.name} or {state.journal.name}"
            raise StateDamaged(f"{names} is damaged") from None
        adopted = False
    if adopted and not quiet:
        click.echo(f"{program}: the outcome of the last submission is unknown: its changes are sent again", err=True)
    urlprefix = urlprefix or state.urlprefix()
    sink = Sink(output, Header("lcccpstate", full, state.path, token, urlprefix))
    writer = StateWriter(state.pending, token, urlprefix)
    try:
        difference = compare(
            state,
            site,
            writer,
            sink.write,
            now=int(time.time()),
            full=full,
            retry_failed=retry_failed,
            allow_mass_delete=allow_mass_delete,
        )
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    if difference.repeated:
        click.echo(f"{program}: {difference.repeated:,} URLs occurred more than once; the first one counts", err=True)
    sink.difference = difference
    return sink


add_examples(command, "lcccpstate")


def main() -> None:
    """The console script."""
    run(command, "lcccpstate")
