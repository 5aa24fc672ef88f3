"""What the queue manager orders for the content folder of a machine itself: files to remove, names to skip, marks."""

from __future__ import annotations

from twisted.logger import Logger

from lcc.errors import StreamError
from lcc.interfaces import IContentFolder
from lcc.protocols.work import Delete, Deleted, Mark, Names
from lcc.roles.botm.counters import Counters

_log = Logger()


class ContentOrders:
    """Carries out orders that concern content files, not fetches.

    :param machine: the id of this machine.
    """

    def __init__(self, content: IContentFolder, machine: int, counters: Counters) -> None:
        self._content = content
        self._machine = machine
        self._counters = counters

    def delete(self, delete: Delete) -> Deleted | None:
        """Remove a file; the answer.  None: it stays on the queue manager's list."""
        if delete.machine != self._machine:
            _log.error(
                "Ignoring a delete order for machine {machine}: this is machine {here}",
                machine=delete.machine,
                here=self._machine,
            )
            return None
        try:
            self._content.remove(delete.file)
        except OSError as error:
            _log.error("Cannot remove content file {file}: {error}", file=delete.file, error=str(error))
            return None
        self._counters.files_removed += 1
        return Deleted(delete.id)

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
