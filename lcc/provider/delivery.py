"""One stream on its way to the LCC: which elements are sent, and what the state file will say of them.

``lcccpstate`` has written the pending state as it would be if all of the stream were taken.  ``lcccp`` knows more,
and notes it there:

* *deletions of what is live* stay here: only ``lcccp`` knows what relative names stand behind, and so whether a name
  that is gone and one that is there are one URL;
* *failures* that the greeting tells (404, over quota) are noted before the set is sent, for then the LCC forgets
  them: ``lcccpstate`` tells these URLs again when their time has come;
* what the quota has *no room* for, and did not have last time, is not sent, and noted in the same way;
* what was *refused* is noted once the set is accepted: it counts as not told;
* the *urlprefix* is noted once a relative name was accepted behind it (not before: a wrong one must not stick).

Each step replaces the pending state as a whole.  If the answer is lost, or this process dies, what differs from the
state of before is unsure, and is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from lcc.errors import code as code_of
from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider.client import Submission
from lcc.provider.failures import QUOTA, Failure, failed, failure_in, without_room
from lcc.provider.names import Names, is_relative, page_of
from lcc.provider.report import Plan
from lcc.provider.spool import Spool, length_of
from lcc.provider.statefile import UNSURE, StateDamaged, StateEntry, StateFile, notice_digest
from lcc.provider.stream_format import StreamFault, is_deletion, named

REFUSED_MAX = 1_000_000
"""So many refused URLs are remembered, in some 150 MB; beyond, all of the set counts as unsure."""

_FILES, _SPACE = code_of("quota-files"), code_of("quota-space")
_OUTSIDE = code_of("outside-roots")


class OtherPrefix(StreamFault):
    """The state file's relative names were told behind another urlprefix."""

    usually = (
        "check --urlprefix. If the site has moved, run lcccpstate with the new --urlprefix as well, which deletes "
        "the old URLs and submits the new ones, or with --full"
    )


@attrs.frozen
class Noted:
    """What was recorded in the pending state when the LCC answered the login.

    :ivar failed: URLs that are told again.
    :ivar wait_seconds: how long that is not before; 0: some of them by the next run.
    :ivar held: URLs of this stream that are not sent: the quota still has no room for them.
    """

    failed: int = 0
    held: int = 0
    wait_seconds: int = 0


class Delivery:
    """Filters one stream, and updates its state file.

    :param state: its state file, locked; None: it has none, and all of it is sent as it is.
    :param urlprefix: that of ``lcccp``.
    """

    def __init__(self, spool: Spool, state: StateFile | None, urlprefix: str) -> None:
        self._spool = spool
        self._state = state
        self._names = Names(urlprefix)
        before = spool.header.urlprefix if spool.header is not None else ""
        self._names_before = Names(before or urlprefix)
        self._live_pages: set[bytes] = set()
        self._live: set[bytes] = set()
        self._held: set[bytes] = set()
        self._held_bytes = self._held_retold = 0
        self._refused: dict[bytes, int] = {}
        self._relative_refused = 0
        self._too_many = False

    @property
    def plan(self) -> Plan:
        """What is sent."""
        plan = self._spool.plan
        dropped = len(self._live) + len(self._live_pages)
        return attrs.evolve(
            plan,
            elements=plan.elements - dropped - len(self._held),
            deletions=plan.deletions - dropped,
            bytes=plan.bytes - self._held_bytes,
        )

    @property
    def retold(self) -> int:
        """Unchanged URLs in it that could not be fetched earlier."""
        return self._spool.end.retold - self._held_retold if self._spool.end is not None else 0

    @property
    def waiting(self) -> int:
        """URLs that could not be fetched, and are not due for a retry yet."""
        return self._spool.end.waiting if self._spool.end is not None else 0

    # Before the connection.

    def prepare(self) -> None:
        """Compare the stream with the urlprefix.

        :raises OtherPrefix: it is the difference to what was told behind another one.
        :raises StateDamaged: the pending state cannot be read.
        """
        header, end = self._spool.header, self._spool.end
        if header is None or end is None or self._state is None:
            return
        same = self._names.are_those_of(Names(header.urlprefix))
        if header.urlprefix and not same and end.resolved and not header.full:
            raise OtherPrefix(
                f"{self._state.path} is of URLs behind {header.urlprefix}, and --urlprefix is "
                f"{self._names.urlprefix or 'not given'}"
            )
        if self._spool.plan.deletions and (not same or not header.urlprefix or self._spool.counts.bare_deletions):
            self._find_live(self._state)

    def _find_live(self, state: StateFile) -> None:
        gone = {self._names_before.key_of(element) for element in self._spool.elements() if is_deletion(element)}
        for entry in state.pending_entries():
            key = self._names.key(entry.curl, entry.mimetype)
            if key in gone:
                self._live.add(key)
            if page_of(key) in gone:
                self._live_pages.add(page_of(key))
        self._live_pages -= self._live

    # At the greeting.

    def greeted(self, welcome: InitAccepted, now: int) -> Noted:
        """Record the LCC's answer to the login durably; call this before anything is sent, at each attempt.

        :param now: seconds since 1970.
        :raises OSError, StateFault: it cannot be noted, and nothing may be sent.
        """
        self._refused.clear()
        self._held.clear()
        self._held_bytes = self._held_retold = self._relative_refused = 0
        self._too_many = False
        state, header = self._state, self._spool.header
        if state is None or header is None:
            return Noted()
        shown = self._shown(welcome.errors)
        held = {} if header.full else self._without_room(state, welcome)
        if not shown and not held:
            return Noted()
        waits = []

        def mark(entry: StateEntry) -> StateEntry:
            key = self._names.key(entry.curl, entry.mimetype)
            if key not in shown and key not in held:
                return entry
            known, digest = failure_in(entry.digest)
            if key in shown:
                failure = failed(known, shown[key], now)
                waits.append(max(failure.at - now, 0))
            else:
                failure = without_room(known, held[key], now)
            return entry._replace(digest=failure.before(digest))

        state.revise(header.token, None, mark)
        return Noted(len(waits), len(held), min(waits, default=0))

    def _shown(self, errors: Iterable[UrlFault]) -> dict[bytes, int]:
        """URLs that could not be fetched and are not in this stream: key -> code."""
        shown = {self._names.key_of(fault.attributes): fault.code for fault in errors if named(fault.attributes, "c")}
        if shown:
            for element in self._spool.elements():
                shown.pop(self._names.key_of(element), None)
        return shown

    def _without_room(self, state: StateFile, welcome: InitAccepted) -> dict[bytes, int]:
        """URLs over quota that would fail again: key -> code.

        Deletions in the same set make room, nobody knows how much: everything is tried then.
        """
        plan = self._spool.plan
        if not self.retold or plan.deletions or (welcome.files_free is None and welcome.space_free_bytes is None):
            return {}
        over: dict[bytes, tuple[Failure, str]] = {}
        for entry in state.entries():
            failure, told = failure_in(entry.digest)
            if failure is not None and failure.code in QUOTA and not failure.told_again:
                over[self._names_before.key(entry.curl, entry.mimetype)] = failure, told
        free = {_FILES: welcome.files_free, _SPACE: welcome.space_free_bytes}
        for element in self._spool.elements() if over else ():
            key = self._names.key_of(element)
            if key not in over:
                continue
            failure, told = over[key]
            code = failure.code
            room = free[code]
            if room is None:
                continue
            length = length_of(element)
            needed = 1 if code == _FILES else length
            if needed > room:
                self._held.add(key)
                self._held_bytes += length
                self._held_retold += told == notice_digest(element)
            else:
                free[code] = room - needed
        return {key: over[key][0].code for key in self._held}

    def elements(self) -> Iterator[dict[str, str]]:
        """The elements to send; iterate after :meth:`greeted`."""
        moved = not self._names.are_those_of(self._names_before)
        if not (moved or self._live or self._live_pages or self._held):
            yield from self._spool.elements()
            return
        for element in self._spool.elements():
            if not is_deletion(element):
                if not self._held or self._names.key_of(element) not in self._held:
                    yield element
                continue
            key = self._names_before.key_of(element)
            if key in self._live or key in self._live_pages:
                continue
            if moved and is_relative(named(element, "c")):
                element = {**element, "c": self._names_before.url(named(element, "c"))}
            yield element

    # The answer.

    def refused(self, fault: UrlFault) -> None:
        """An element of this set was refused."""
        if self._state is None:
            return
        if len(self._refused) >= REFUSED_MAX:
            self._too_many = True
            return
        self._refused[self._names.key_of(fault.attributes)] = fault.code
        self._relative_refused += is_relative(named(fault.attributes, "c")) and not is_deletion(fault.attributes)

    def accepted(self, submission: Submission) -> str:
        """The set is accepted: what was taken of it becomes the state.

        :returns: why that could not be; '' if it was.
        :raises OSError, StateFault: the state cannot be written or read; the pending one stays.
        """
        state, header = self._state, self._spool.header
        if state is None or header is None:
            return ""
        if self._too_many:
            return f"more than {REFUSED_MAX:,} URLs were refused; the next run sends everything again"
        if submission.finished and submission.received + submission.fault_count < submission.sent:
            return "the LCC did not list the refused URLs; the next run sends everything again"
        gone = f"{state.pending} is missing; the next run sends the same set again"
        relative = self._spool.counts.relative
        # Where none was sent, and no other prefix is known, what was told before was told behind this one.
        told = (submission.finished and relative > self._relative_refused) or not (relative or header.urlprefix)
        urlprefix = self._names.urlprefix if told and self._names.urlprefix != header.urlprefix else None
        if (self._refused or urlprefix) and not self._note_answer(state, header.token, urlprefix, header.full):
            return gone
        return "" if state.commit(header.token, header.full) else gone

    def _note_answer(self, state: StateFile, token: str, urlprefix: str | None, full: bool) -> bool:
        refused = dict(self._refused)
        before = self._refused_before(state, full) if refused else {}

        def without(entry: StateEntry) -> StateEntry | None:
            if not refused:
                return entry
            key = self._names.key(entry.curl, entry.mimetype)
            if key not in self._refused:
                return entry
            refused.pop(key, None)
            # What the LCC may have from earlier must be deleted once it is gone; what it never had, not.
            return entry._replace(digest=UNSURE) if full or before is None or key in before else None

        def deletions() -> Iterator[StateEntry]:
            for key, code in refused.items():
                if code == _OUTSIDE and before and key in before:
                    # It may be there since the roots were others.  (No other refused URL can be.)
                    yield before[key]._replace(digest=UNSURE, curl=self._names_before.url(before[key].curl))

        return state.revise(token, urlprefix, without, deletions())

    def _refused_before(self, state: StateFile, full: bool) -> dict[bytes, StateEntry] | None:
        """Its entry in the previous state; None: unreadable."""
        found = {}
        try:
            for entry in state.entries():
                key = self._names_before.key(entry.curl, entry.mimetype)
                if key in self._refused:
                    found[key] = entry
        except StateDamaged:
            if not full:
                raise
            return None
        return found
