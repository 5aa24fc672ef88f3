"""A complete set on its way to the queue manager, and what its provider is told."""

from __future__ import annotations

import errno

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from lcc.model import SetHeader, source_text
from lcc.protocols.uns_qm import Set
from lcc.storage.disk.set_file import SpooledSet


@attrs.frozen
class Verdict:
    """What a provider is told of its set.

    :ivar code: 0: accepted; else why it is rejected.
    :ivar of_disk: because the disk has failed: nothing is wrong with the set.
    """

    code: int
    text: str = ""
    of_disk: bool = False


ACCEPTED = Verdict(0)
"""One for all sets: those of notifiers are kept by the thousand."""


@attrs.define(eq=False)
class Delivery:
    """A set on its way.

    :ivar waiter: the provider that waits; None: it was told, or is gone with an earlier run.
    :ivar securing: a thread is at work on the file; it must not be passed on.
    :ivar checking: a thread reads the file through.
    :ivar sent: it may have reached a queue manager.
    :ivar over: it is no longer in the spool.
    """

    entry: SpooledSet
    waiter: Deferred[Verdict | None] | None = None
    timer: IDelayedCall | None = None
    securing: bool = False
    checking: bool = False
    sent: bool = False
    over: bool = False

    def cancel_timer(self) -> None:
        """Wait no longer for the queue manager."""
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def reply(self, verdict: Verdict | None) -> None:
        """Tell the provider, if it still waits; None: nothing is known."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.callback(verdict)


def opening(header: SetHeader) -> Set:
    """The message that a set begins with."""
    said = header.said
    return Set(
        header.epoch,
        header.number,
        header.pid,
        header.connseq,
        header.full,
        header.errors_upto,
        header.answered,
        header.time,
        header.wantid,
        header.deletions,
        source_text(header.source),
        *(() if said is None else (said.notifier, said.epoch, said.number, said.after)),
    )


def disk_fault(error: OSError) -> str:
    """The name of the error that a provider is told when the disk has failed."""
    return "try-later" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE) else "internal"
