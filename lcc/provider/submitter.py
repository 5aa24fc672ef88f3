"""One submission as its user sees it: attempts, progress, what is printed, the state file, the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from lcc.commands.errors import Trouble
from lcc.domain.advice import advice
from lcc.errors import ConfigError
from lcc.errors import code as code_of
from lcc.protocols.cp_uns import InitAccepted
from lcc.provider.client import Submission, Unreachable, submit, uns_endpoint
from lcc.provider.command import in_words, next_step, printable, say
from lcc.provider.delivery import Delivery, Noted
from lcc.provider.report import (
    accepted_line,
    counted,
    failed_again,
    fault_lines,
    held_line,
    prefix_hints,
    quota_warnings,
    wanted_reason,
    welcome_lines,
    what_to_do,
)
from lcc.provider.spool import Spool
from lcc.provider.statefile import StateFile

ACCEPTED, URL_ERRORS, REJECTED, UNREACHABLE = 0, 1, 3, 4
USAGE = 2
_COME_AGAIN = frozenset(
    {
        code_of("throttled"),
        code_of("try-later"),
        code_of("internal"),
        code_of("too-many-connections"),
        code_of("cut-off"),
    }
)
_AGAIN = "hint: failed URLs are sent again when they change; lcccpstate --full sends the whole site"
_REFUSED_AGAIN = "hint: the next run of lcccpstate and lcccp submits refused URLs again"
_NOT_LISTED = "hint: the LCC does not list all of them; lcccpstate --full sends the whole site again"
_HELD = (
    "if the pages are gone, run the pipeline again with lcccp --allow-deletions; if not, send the whole site: "
    "lcccpstate --full"
)
_MAY_BE_HELD = "lcccp --check shows whether the LCC holds deletions of this set as a mass deletion"
_NONE_HELD = "the LCC holds no deletions (yet): nothing to allow"
_STALE = "the LCC may have fewer URLs than {} says: the next run sends a full set"
_WHERE = "use HOST:PORT, such as lcc.example.org:9000, or an endpoint such as unix:PATH"
_AUTHORITY = "give a PEM file with the CA certificate that the operator gave you"
_NO_CONNECTION = "check --uns, and that the UNS runs and is reachable from here; then try again"
_NO_ANSWER = "run the pipeline again; if the problem persists, ask the operator to check the log of the UNS"
_RETRY_SECONDS = (2.0, 4.0, 8.0, 16.0, 30.0)


@attrs.frozen
class Orders:
    """What the user asked for.

    :ivar uns, tls, ca_file: the UNS, as :func:`lcc.provider.client.uns_endpoint` understands it.
    :ivar retries: further attempts when there is no answer, or the LCC says "try again later".
    :ivar show_errors: how many URL errors are printed in full.
    :ivar allow_deletions: however much the LCC is to delete, it is meant.
    :ivar program: who speaks.
    """

    uns: str
    pid: int
    password: str = attrs.field(repr=False)
    urlprefix: str
    timeout_seconds: float
    retries: int
    show_errors: int
    quiet: bool
    tls: bool = False
    ca_file: Path | None = None
    allow_deletions: bool = False
    program: str = "lcccp"


class Submitter:
    """Carries out one run of ``lcccp``.

    :param spool: what to send; None: only connect and tell (``--check``).
    :param state: the state file to bring up to date, already locked; None: there is none.
    :ivar interrupted: :meth:`run` was cancelled while it waited, and ended as "no answer".
    """

    def __init__(self, orders: Orders, spool: Spool | None, state: StateFile | None) -> None:
        self._orders = orders
        self._spool = spool
        self._state = state
        self._delivery = None if spool is None else Delivery(spool, state, orders.urlprefix)
        self._noted = Noted()
        self._progress: _Progress | None = None
        self._may_be_accepted = False
        self._release_noted = False
        self._wanted = ""
        self.interrupted = False

    def start(self, reactor: Any) -> Deferred[int]:
        """As :meth:`run`; ends as "no answer" when the reactor stops (a signal)."""
        result = Deferred.fromCoroutine(self.run(reactor))
        reactor.addSystemEventTrigger("before", "shutdown", result.cancel)
        return result

    async def run(self, reactor: Any) -> int:
        """Connect, send, tell; gives the exit code."""
        try:
            endpoint = uns_endpoint(reactor, self._orders.uns, self._orders.tls, self._orders.ca_file)
        except (ValueError, ConfigError) as error:
            self._complain(f"--ca-file: {error}" if isinstance(error, ConfigError) else f"--uns: {error}")
            self._next(_AUTHORITY if isinstance(error, ConfigError) else _WHERE)
            self._discard()
            return USAGE
        try:
            if self._delivery is not None:
                self._delivery.prepare()
        except (Trouble, OSError) as error:
            return self._unusable(error)
        for attempt in range(self._orders.retries + 1):
            try:
                submission = await self._attempt(reactor, endpoint)
            except ValueError as error:
                self._complain(str(error))
                self._next("run the pipeline again; see lcccp --help for the options")
                self._discard()
                return USAGE
            except (Trouble, OSError) as error:
                return self._unusable(error)
            except Unreachable as failure:
                self._may_be_accepted = self._may_be_accepted or failure.uncertain
                self._complain(f"{self._orders.uns}: {printable(str(failure))}")
                if failure.silent and not self._orders.tls:
                    self._hint(["hint: a TLS port needs --tls"])
                if attempt == self._orders.retries and not self.interrupted:
                    self._next(_NO_ANSWER if failure.connected else _NO_CONNECTION)
            else:
                if submission.accepted or submission.code not in _COME_AGAIN or attempt == self._orders.retries:
                    return self._answered(submission)
                self._complain(f"{self._orders.uns}: {printable(submission.text)}")
            if self.interrupted or attempt == self._orders.retries:
                break
            delay = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
            self._tell(f"trying again in {delay:g} seconds")
            try:
                await deferLater(reactor, delay)
            except CancelledError:
                self.interrupted = True
                self._complain("interrupted")
                break
        if self._may_be_accepted:
            self._complain("the whole set was sent and may have been accepted; the next run sends it again")
        else:
            self._discard()
        return UNREACHABLE

    def _unusable(self, error: Trouble | OSError) -> int:
        """Report unusable input or state."""
        self._complain(f"{in_words(error)}; nothing was sent")
        self._next(next_step(error))
        if not self._may_be_accepted:
            self._discard()
        return USAGE

    async def _attempt(self, reactor: Any, endpoint: Any) -> Submission:
        orders, delivery = self._orders, self._delivery
        plan = delivery.plan if delivery is not None else None
        watched = plan is not None and plan.elements and not orders.quiet and sys.stderr.isatty()
        self._progress = _Progress(plan.elements) if watched and plan is not None else None

        def interrupt(_: Any) -> None:
            self.interrupted = True
            submitting.cancel()

        answered: Deferred[Submission] = Deferred(interrupt)
        try:
            submitting = submit(
                reactor,
                endpoint,
                orders.pid,
                orders.password,
                delivery.elements() if delivery is not None else None,
                full=plan is not None and plan.full,
                urlprefix=orders.urlprefix,
                on_progress=self._progress.sent if self._progress is not None else None,
                on_welcome=self._welcomed,
                timeout_seconds=orders.timeout_seconds,
                on_fault=delivery.refused if delivery is not None else None,
                faults_kept=orders.show_errors,
                deletions=orders.allow_deletions,
            )
            submitting.chainDeferred(answered)
            return await answered
        finally:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def _welcomed(self, welcome: InitAccepted) -> bool:
        """What the LCC says at the beginning; whether there is something to send."""
        delivery, orders = self._delivery, self._orders
        self._noted = delivery.greeted(welcome, int(time.time())) if delivery is not None else Noted()
        if welcome.error_count:
            self._complain(f"{counted(welcome.error_count, 'error', 'errors')} of earlier fetches:")
            for line in fault_lines(welcome.errors, welcome.error_count, orders.show_errors):
                self._complain(line, bare=True)
            self._hint(what_to_do(welcome.errors, orders.show_errors))
            if self._noted.failed:
                self._hint([f"hint: {failed_again(self._noted.failed, self._noted.wait_seconds)}"])
                self._hint([_NOT_LISTED] if welcome.error_count > len(welcome.errors) else [])
        self._note_wanted(welcome)
        self._note_held(welcome)
        if delivery is None:
            for line in welcome_lines(welcome):
                say(line)
            return False
        plan = delivery.plan
        for warning in quota_warnings(welcome, plan):
            self._complain(f"warning: {warning}")
        if delivery.retold:
            self._tell(f"{counted(delivery.retold, 'URL', 'URLs')} that could not be fetched: submitted again")
        if delivery.waiting:
            self._tell(
                f"{counted(delivery.waiting, 'URL', 'URLs')} that could not be fetched: to be submitted again later"
            )
        if self._noted.held:
            self._tell(
                f"{counted(self._noted.held, 'URL waits', 'URLs wait')} for room in the quota: not submitted again "
                f"yet"
            )
        if self._progress is not None:
            self._progress.start()
        released = orders.allow_deletions and welcome.deletions_held
        return bool(plan.elements or plan.full or welcome.error_count or released)

    def _note_held(self, welcome: InitAccepted) -> None:
        """Report deletions that the LCC holds until they are confirmed."""
        if welcome.deletions_held:
            self._complain(f"warning: {held_line(welcome)}")
            if not self._orders.allow_deletions:
                self._next(_HELD)
            elif self._state is not None and self._delivery is not None and not self._delivery.plan.full:
                # Before they are released: the answer may be lost.
                self._release_noted = self._state.note_deletions_released() or self._release_noted

    def _note_wanted(self, welcome: InitAccepted) -> None:
        reason = self._wanted = wanted_reason(welcome)
        if self._state is not None:
            try:
                self._state.note_full_set_wanted(reason)
            except OSError as error:
                self._complain(f"the LCC wants a full set, which could not be recorded: {error}")
        if reason and self._spool is not None and not self._spool.plan.full:
            how = "the next run sends one" if self._state is not None else "send one with --full"
            self._complain(f"the LCC wants a full set ({reason}): {how}")

    def _answered(self, submission: Submission) -> int:
        if not submission.accepted:
            self._complain(f"rejected by the LCC: {submission.code} {printable(submission.text)}")
            self._next(advice(submission.code))
            if submission.code == code_of("bad-prefix"):
                self._hint(prefix_hints((), self._orders.urlprefix))
            if not self._may_be_accepted:
                self._discard()
            return REJECTED
        self._commit(submission)
        failed = submission.fault_count or (submission.welcome is not None and submission.welcome.error_count)
        if self._delivery is None:
            self._hint([_AGAIN] if failed else [])
            return ACCEPTED
        if submission.fault_count:
            self._complain(f"{counted(submission.fault_count, 'URL was', 'URLs were')} refused:")
            for line in fault_lines(submission.faults, submission.fault_count, self._orders.show_errors):
                self._complain(line, bare=True)
            self._hint(what_to_do(submission.faults, self._orders.show_errors))
            self._hint(prefix_hints(submission.faults, self._orders.urlprefix))
        if submission.blanked_subtypes:
            which = counted(submission.blanked_subtypes, "subtype was", "subtypes were")
            self._complain(f"warning: {which} left out: not of the form type: value")
        if self._state is not None:
            self._hint([_REFUSED_AGAIN] if submission.fault_count else [])
        else:
            self._hint([_AGAIN] if failed else [])
        plan = self._delivery.plan
        released = (
            self._orders.allow_deletions and submission.welcome is not None and submission.welcome.deletions_held
        )
        if released:
            self._tell("accepted: the deletions that the LCC held")
            if self._state is not None and not plan.full:
                self._complain(_STALE.format(self._state.path))
        elif self._orders.allow_deletions and not plan.full:
            self._tell(_NONE_HELD)
        if plan.elements or plan.full:
            self._tell(accepted_line(plan, submission.received))
            if plan.full and not self._orders.allow_deletions:
                self._tell(_MAY_BE_HELD)
        else:
            told = self._noted.held or self._delivery.waiting or released
            self._tell("nothing else has changed" if told else "nothing has changed")
        return URL_ERRORS if submission.fault_count else ACCEPTED

    def _commit(self, submission: Submission) -> None:
        if self._delivery is None:
            return
        try:
            trouble = self._delivery.accepted(submission)
        except (Trouble, OSError) as error:
            trouble = f"cannot save the state: {in_words(error)}; the next run sends the same set again"
        if trouble:
            self._complain(f"warning: {trouble}")

    def _discard(self) -> None:
        """Nothing was taken, for certain: the state is as it was."""
        if self._state is not None and self._spool is not None:
            try:
                self._state.discard(self._spool.token)
                if self._release_noted:
                    self._state.deletions_not_released(self._wanted)
            except OSError as error:
                self._complain(f"warning: {error}")

    def _tell(self, text: str) -> None:
        if not self._orders.quiet:
            say(f"{self._orders.program}: {text}")

    def _next(self, step: str) -> None:
        """Print the next step, even with --quiet."""
        self._complain(f"next: {step}")

    def _hint(self, lines: Iterable[str]) -> None:
        if not self._orders.quiet:
            for line in lines:
                self._complain(line)

    def _complain(self, text: str, bare: bool = False) -> None:
        say(text if bare else f"{self._orders.program}: {text}", err=True)


class _Progress:
    """A progress bar on standard error, for a person who watches."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._total = total
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("sending", total=total)

    def start(self) -> None:
        """Show it."""
        self._bar.start()

    def sent(self, count: int) -> None:
        """So many elements were sent."""
        waiting = count >= self._total
        description = "waiting for the LCC" if waiting else "sending"
        self._bar.update(self._task, completed=count, description=description)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()
