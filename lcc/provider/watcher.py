"""``lccwatch``: tells a UNS which files have changed, as it happens.

*Owns* one connection that stays open, the watches (:mod:`lcc.provider.folders`), and while it runs the state file of
``lcccpstate``, with its journal.

*Strategy.*  At the start all files are compared with the state file, and the difference is submitted, as by
``lcccpstate`` and ``lcccp``; so what happened meanwhile is told, URLs that could not be fetched are told again, and
the guard against mass deletion is the same.  From then on what inotify names is told: a burst is one set, once
nothing more has come for :data:`QUIET_SECONDS`, or after :data:`BURST_SECONDS`.  Everything is compared again where
events were lost, when the LCC has errors to show or wants a full set, and every ``compare_seconds``.

*Failures.*  What is told is journalled before; without an answer nobody knows whether it was taken, and the
comparison after the next connection tells it again.  Reconnections come after growing delays.  Deletions of more than
half of the site are left to a comparison some seconds later: a site that is built anew is often deleted first.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import deferLater

from lcc.client.conversation import Conversation, NoVerdict, Refused
from lcc.commands.errors import Trouble
from lcc.protocols.cp_uns import UrlFault
from lcc.protocols.cp_uns_client import set_begin, url_element
from lcc.provider.client import uns_endpoint
from lcc.provider.command import in_words, next_step, printable, say
from lcc.provider.files import Describer, Listed, Skipped
from lcc.provider.folders import WatchedFolders
from lcc.provider.lcccpstate import filter_site
from lcc.provider.report import counted
from lcc.provider.site_diff import MASS_DELETE_MINIMUM, SiteFault
from lcc.provider.spool import Spool, spool_stream
from lcc.provider.statefile import UNSURE, Journal, StateEntry, StateFile, notice_digest
from lcc.provider.stream_format import named
from lcc.provider.submitter import ACCEPTED, UNREACHABLE, URL_ERRORS, Orders, Submitter

QUIET_SECONDS = 0.15
BURST_SECONDS = 0.6
KEEP_ALIVE_SECONDS = 60.0
AGAIN_SECONDS = 10.0
"""Between two comparisons, and before that of a site that has lost more than half of its pages."""
SET_FILES_MAX = 5000
_WRITE_ELEMENTS = 200
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_REFUSED_SECONDS = 300.0
"""After which a rejection, or input that cannot be sent, is tried once more."""


@attrs.frozen
class Folder:
    """A folder that is watched.

    :ivar path: absolute.
    :ivar prefix: what its names begin with, such as ``media/``; empty: nothing.
    """

    path: bytes
    prefix: str = ""


@attrs.frozen
class Change:
    """What has become of a file.

    :ivar now: what is to be told of it; None: it is gone.
    :ivar before: what was told; None: nothing.
    """

    path: bytes
    now: dict[str, str] | None
    before: dict[str, str] | None

    @property
    def elements(self) -> list[dict[str, str]]:
        """What tells it."""
        elements = []
        if self.before is not None and (self.now is None or (self.now["c"], self.now["m"]) != _name(self.before)):
            elements.append({"c": self.before["c"], "m": self.before["m"], "op": "delete"})
        if self.now is not None:
            elements.append(self.now)
        return elements


def _name(attributes: dict[str, str]) -> tuple[str, str]:
    return attributes["c"], attributes["m"]


def _upwards(folder: bytes) -> Iterator[bytes]:
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]


class Site:
    """The files as they are, and as they were told.  Its methods read files: they are called in a thread, one at a
    time.

    :param note: takes notes about files that cannot be told.
    :ivar told: path -> what was told of it.
    """

    def __init__(
        self,
        folders: Sequence[Folder],
        describer: Describer,
        files: Callable[[bytes], Iterator[bytes]],
        note: Callable[[str], None],
    ) -> None:
        self.told: dict[bytes, dict[str, str]] = {}
        self._folders = folders
        self._describer = describer
        self._files = files
        self._note = note
        self._seen: dict[bytes, tuple[tuple[int, ...], dict[str, str] | None]] = {}

    def all(self) -> Iterator[dict[str, str]]:
        """The elements of all files; they count as told.

        :raises SiteFault: one cannot be read: it must not look deleted.
        """
        self.told = {}
        before, self._seen = self._seen, {}
        for folder in self._folders:
            try:
                for path in self._files(folder.path):
                    if path in before:
                        self._seen[path] = before[path]
                    found = self._describe(path)
                    if found is not None:
                        self.told[path] = found
                        yield found
            except OSError as error:
                name = os.fsdecode(error.filename or folder.path)
                raise SiteFault(
                    f"{name}: {error.strerror}", "make it readable by this user; what cannot be read is not deleted"
                ) from None

    def changes(self, paths: Sequence[bytes]) -> list[Change]:
        """What has become of these files and folders."""
        found = []
        for path in dict.fromkeys(self._each(paths)):
            try:
                now = self._describe(path)
            except OSError as error:
                self._note(f"{os.fsdecode(path)}: {error.strerror}")
                continue
            before = self.told.get(path)
            if now != before:
                found.append(Change(path, now, before))
        return found

    def _each(self, paths: Sequence[bytes]) -> Iterator[bytes]:
        """The files that these are, or that are or were in them."""
        folders = set()
        for path in paths:
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                mode = 0
            if stat.S_ISREG(mode) or path in self.told:
                yield path
            else:
                folders.add(path)  # or a file of which nothing was told
            if stat.S_ISDIR(mode):
                try:
                    yield from self._files(path)
                except OSError as error:
                    self._note(f"{os.fsdecode(path)}: {error.strerror}")
        if folders:
            yield from self._told_in(folders)

    def _told_in(self, folders: set[bytes]) -> list[bytes]:
        """What was told of files in and below these folders; all at once: there may be as many as names of temporary
        files."""
        found: list[bytes] = []
        is_in: dict[bytes, bool] = {}
        for path in self.told:
            folder = path.rpartition(b"/")[0]
            if folder not in is_in:
                is_in[folder] = any(each in folders for each in _upwards(folder))
            if is_in[folder]:
                found.append(path)
        return found

    def _describe(self, path: bytes) -> dict[str, str] | None:
        """
        :returns: None: there is nothing to tell.
        :raises OSError: it cannot be read.
        """
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            self._seen.pop(path, None)
            return None
        signature = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if path in self._seen and self._seen[path][0] == signature:
            return self._seen[path][1]
        folder = next(each for each in self._folders if path.startswith(each.path + b"/"))
        try:
            attributes = self._describer.describe(Listed(path, path[len(folder.path) + 1 :]))
            attributes["c"] = folder.prefix + attributes["c"]
        except Skipped:
            attributes = None
        self._seen[path] = signature, attributes
        return attributes


class Watcher:
    """See :mod:`lcc.provider.watcher`.

    :param state: locked.
    :param in_thread: calls a function in a thread.
    """

    def __init__(
        self,
        reactor: Any,
        orders: Orders,
        state: StateFile,
        folders: Sequence[Folder],
        describer: Describer,
        in_thread: Callable[..., Deferred[Any]],
        allow_mass_delete: bool,
        compare_seconds: float,
    ) -> None:
        self._reactor = reactor
        self._orders = orders
        self._state = state
        self._in_thread = in_thread
        self._allow_mass_delete = allow_mass_delete
        self._compare_seconds = compare_seconds
        self._watched = WatchedFolders(reactor, [folder.path for folder in folders], self._touched)
        self._site = Site(folders, describer, self._watched.files, self._complain)
        self._wake: Deferred[None] | None = None
        self._conversation: Conversation | None = None
        self._failures = 0

    async def run(self) -> None:
        """Until it is cancelled.

        :raises ValueError, ConfigError: the UNS's address cannot be used.
        """
        orders = self._orders
        endpoint = uns_endpoint(self._reactor, orders.uns, orders.tls, orders.ca_file)
        try:
            while True:
                delay = await self._watch_once(endpoint)
                await deferLater(self._reactor, delay)
        finally:
            self._watched.end()
            if self._conversation is not None:
                self._conversation.close()

    async def _watch_once(self, endpoint: IStreamClientEndpoint) -> float:
        """Compare everything, and tell what happens until that must be done again; gives the seconds until then."""
        try:
            self._watched.watch()
            code = await self._compare()
            if code in (ACCEPTED, URL_ERRORS):
                compared = self._reactor.seconds()
                while self._reactor.seconds() - compared < self._compare_seconds:
                    delay = await self._tell_what_happens(endpoint, compared)
                    if delay is not None:
                        return delay
                return 0.0
            return self._delay() if code == UNREACHABLE else _REFUSED_SECONDS
        except (Refused, NoVerdict) as error:
            self._complain(f"{self._orders.uns}: {printable(str(error)) or 'the connection was lost'}")
        except (Trouble, OSError) as error:
            self._complain(f"{in_words(error)}; nothing was sent")
            self._complain(f"next: {next_step(error)}")
        return self._delay()

    def _delay(self) -> float:
        delay = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS) - 1)]
        self._failures += 1
        return delay

    # Everything.

    async def _compare(self) -> int:
        """Submit the difference to the state file; gives the exit code of ``lcccp``."""
        spool: Spool = await self._in_thread(self._difference)
        with spool:
            submitter = Submitter(self._orders, spool, self._state)
            code = await submitter.run(self._reactor)
        if submitter.interrupted:
            raise CancelledError
        if code in (ACCEPTED, URL_ERRORS):
            self._failures = 0
        return code

    def _difference(self) -> Spool:
        with tempfile.TemporaryFile(prefix="lccwatch-") as file:
            sink = filter_site(
                self._site.all(),
                file,
                self._state,
                self._orders.urlprefix,
                allow_mass_delete=self._allow_mass_delete,
                quiet=self._orders.quiet,
                program=self._orders.program,
            )
            sink.end()
            file.seek(0)
            return spool_stream(file, False, self._allow_mass_delete, True)

    # What happens.

    async def _tell_what_happens(self, endpoint: IStreamClientEndpoint, compared: float) -> float | None:
        """Until the next burst was told, or for some seconds.

        :param compared: when everything was compared.
        :returns: after how many seconds everything has to be compared again; None: it has not.
        """
        conversation = self._conversation
        if conversation is None or not conversation.is_open:
            conversation = await self._connect(endpoint)
            if conversation is None:
                # Errors that were shown are forgotten with the next set: they must be noted before.
                passed: float = self._reactor.seconds() - compared
                return max(0.0, AGAIN_SECONDS - passed)
        await self._touch(KEEP_ALIVE_SECONDS)
        self._watched.check()
        if self._watched.lost:
            self._complain("events were lost, or a folder was replaced: comparing all files")
            return 0.0
        paths = await self._burst()
        changes: list[Change] = await self._in_thread(self._site.changes, paths) if paths else []
        if not changes:
            # Also where files are written of which there is nothing to tell, however often.
            conversation.keep_alive()
            return None
        if self._is_mass_deletion(changes):
            return AGAIN_SECONDS
        for start in range(0, len(changes), SET_FILES_MAX):
            await self._tell(conversation, changes[start : start + SET_FILES_MAX])
        return None

    async def _connect(self, endpoint: IStreamClientEndpoint) -> Conversation | None:
        """None: the LCC has something to say that a comparison has to hear."""
        orders = self._orders
        conversation = Conversation(self._reactor, orders.pid, orders.password, "", lambda gone: self._touched())
        try:
            await endpoint.connect(conversation.factory())
        except (CancelledError, ConnectingCancelledError):
            raise CancelledError from None
        except Exception as error:
            raise OSError(f"{orders.uns} is unreachable: {error}") from None
        late = self._reactor.callLater(orders.timeout_seconds, conversation.drop)
        try:
            greeting = await conversation.login.get()
        finally:
            if late.active():
                late.cancel()
        if greeting.full_set_wanted:
            self._state.note_full_set_wanted(greeting.full_set_reason or "unknown reason")
        if greeting.error_count or greeting.full_set_wanted:
            conversation.close()
            return None
        self._conversation = conversation
        return conversation

    async def _burst(self) -> list[bytes]:
        """What was touched, once it is quiet."""
        paths: dict[bytes, None] = {}
        began = self._reactor.seconds()
        while found := self._watched.take():
            paths.update(dict.fromkeys(found))
            if self._reactor.seconds() - began >= BURST_SECONDS:
                break
            await deferLater(self._reactor, QUIET_SECONDS)
        return list(paths)

    def _is_mass_deletion(self, changes: Sequence[Change]) -> bool:
        gone = sum(change.now is None for change in changes)
        known = len(self._site.told)
        if self._allow_mass_delete or known < MASS_DELETE_MINIMUM or gone * 2 <= known:
            return False
        self._complain(f"{gone:,} of {known:,} files are gone: looking again in {AGAIN_SECONDS:g} seconds")
        return True

    async def _tell(self, conversation: Conversation, changes: Sequence[Change]) -> None:
        """
        :raises Refused, NoVerdict: it was not accepted, or nobody knows.
        """
        elements = [element for change in changes for element in change.elements]
        if not elements:
            return
        journal = Journal(self._state.journal, self._orders.urlprefix)
        refused: dict[tuple[str, str], UrlFault] = {}
        try:
            journal.note([StateEntry(UNSURE, *_name(element)) for element in elements], durably=True)
            conversation.begin(
                set_begin(False, self._orders.urlprefix),
                lambda fault: refused.update({(named(fault.attributes, "c"), named(fault.attributes, "m")): fault}),
            )
            for start in range(0, len(elements), _WRITE_ELEMENTS):
                conversation.write("".join(map(url_element, elements[start : start + _WRITE_ELEMENTS])))
                room = conversation.room()
                if room is not None:
                    await room
            conversation.end()
            late = self._reactor.callLater(self._orders.timeout_seconds, conversation.drop)
            try:
                await conversation.verdict.get()
            finally:
                if late.active():
                    late.cancel()
            journal.note(self._taken(elements, refused), durably=False)
        finally:
            journal.close()
        self._accepted(changes, elements, refused)

    def _taken(
        self, elements: Sequence[dict[str, str]], refused: dict[tuple[str, str], UrlFault]
    ) -> Iterator[StateEntry]:
        """What the LCC has now; what it refused stays unsure."""
        for element in elements:
            if _name(element) not in refused:
                yield StateEntry("" if "op" in element else notice_digest(element), *_name(element))

    def _accepted(
        self,
        changes: Sequence[Change],
        elements: Sequence[dict[str, str]],
        refused: dict[tuple[str, str], UrlFault],
    ) -> None:
        for change in changes:
            if change.now is None:
                self._site.told.pop(change.path, None)
            else:
                self._site.told[change.path] = change.now
        for fault in list(refused.values())[: self._orders.show_errors]:
            self._complain(f"  {fault.code} {printable(fault.url, 300)}: {printable(fault.text, 300)}", bare=True)
        if refused:
            self._complain(f"{counted(len(refused), 'URL was', 'URLs were')} refused")
        if not self._orders.quiet:
            gone = sum("op" in element for element in elements)
            told = counted(len(elements), "URL", "URLs")
            say(f"{self._orders.program}: told: {told}{f', {gone:,} of them deleted' if gone else ''}")

    # Waking up.

    def _touched(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake.callback(None)

    async def _touch(self, seconds: float) -> None:
        """Until something was touched, or for so long; the roots are looked at each second."""
        waited = 0.0
        while waited < seconds and not self._watched.pending and not self._watched.lost:
            wake = self._wake = Deferred()
            timer = self._reactor.callLater(1.0, self._touched)
            try:
                await wake
            finally:
                self._wake = None
                if timer.active():
                    timer.cancel()
            self._watched.check()
            conversation = self._conversation
            if conversation is None or not conversation.is_open:
                return
            waited += 1.0

    def _complain(self, text: str, bare: bool = False) -> None:
        say(text if bare else f"{self._orders.program}: {text}", err=True)


def same_name(folders: Sequence[Path]) -> str:
    """The first folder that lies in another one, or is named twice; empty: none."""
    for number, folder in enumerate(folders):
        for other in folders[:number]:
            if folder == other or other in folder.parents or folder in other.parents:
                return str(folder)
    return ""
