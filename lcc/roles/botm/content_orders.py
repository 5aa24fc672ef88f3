"""What the queue manager orders for the content folder of a machine itself: files to remove, names to skip, marks.

Files are removed in a thread, all that have been ordered meanwhile in one go: an ``unlink`` may wait for the journal
of the file system, and some hundred in a row would hold up orders and results for as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from lcc.domain.wording import number
from lcc.errors import StreamError
from lcc.interfaces import IContentFolder
from lcc.protocols.work import Delete, Deleted, Mark, Names
from lcc.roles.background import Background
from lcc.roles.botm.counters import Counters
from lcc.roles.botm.syncer import InThread
from lcc.roles.upstream import Upstream

_log = Logger()


class ContentOrders:
    """Carries out orders that concern content files, not fetches.

    :param machine: the id of this machine.
    """

    def __init__(self, content: IContentFolder, machine: int, in_thread: InThread, counters: Counters) -> None:
        self._content = content
        self._machine = machine
        self._in_thread = in_thread
        self._counters = counters
        self._link: Upstream | None = None
        self._deletes: list[Delete] = []
        self._removing = Background("Cannot remove content files")

    def delete(self, link: Upstream, delete: Delete) -> None:
        """Remove a file.  The queue manager hears of it when it is gone; what is not answered stays on its list."""
        if delete.machine != self._machine:
            _log.error(
                "Ignoring a delete order for machine {machine}: this is machine {here}",
                machine=delete.machine,
                here=self._machine,
            )
            return
        self._link = link
        self._deletes.append(delete)
        if not self._removing.busy:
            self._removing.begin(self._remove_all())

    def disconnected(self) -> None:
        """The queue manager is gone: it orders again what was not answered."""
        self._link = None
        self._deletes.clear()

    async def _remove_all(self) -> None:
        while self._deletes:
            deletes, self._deletes = self._deletes, []
            link = self._link
            removed: list[Delete] = await self._in_thread(self._remove, deletes)
            self._counters.files_removed += len(removed)
            if link is not None and link is self._link:
                for delete in removed:
                    link.say(Deleted(delete.id))

    def _remove(self, deletes: Sequence[Delete]) -> list[Delete]:
        """Those whose files are gone."""
        removed: list[Delete] = []
        failed: list[tuple[int, str]] = []
        for delete in deletes:
            try:
                self._content.remove(delete.file)
            except OSError as error:
                failed.append((delete.file, str(error)))
            else:
                removed.append(delete)
        if failed:  # a disk that takes nothing takes none of a thousand
            file, why = failed[0]
            others = f" and {number(len(failed) - 1, 'other file')}" if len(failed) > 1 else ""
            _log.error("Cannot remove content file {file}{others}: {error}", file=file, others=others, error=why)
        return removed

    def skip_names(self, names: Names) -> None:
        """Give out none of these names any longer.

        :raises StreamError: they cannot be reserved; whatever was given out now could be somebody else's.
        """
        _log.error(
            "The database knows of files up to {last}, this content folder only of those below {upto}: it was lost "
            "or restored from a backup. Run lcc-admin fsck --repair here: it has what is lost fetched again",
            last=names.upto - 1,
            upto=self._content.names_upto,
        )
        try:
            self._content.skip_names(names.upto)
        except OSError as error:
            raise StreamError("limit", f"cannot reserve file names: {error}") from error

    def remember(self, mark: Mark) -> None:
        """Note how far the database has come."""
        try:
            self._content.remember(mark.epoch, mark.change)
        except OSError as error:
            _log.error("Cannot note how far the database has come: {error}", error=str(error))
