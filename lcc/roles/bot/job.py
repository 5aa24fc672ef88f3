"""One fetch: from the order to the answer."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.domain.mimetypes import is_expected
from lcc.errors import FetchError
from lcc.interfaces import IAttemptFile, IFetcher
from lcc.model import Fetched
from lcc.protocols.work import Fetch
from lcc.roles.bot import answers
from lcc.roles.bot.batches import BatchSink
from lcc.roles.bot.redirects import Follow
from lcc.roles.upstream import Upstream

_log = Logger()


class Job:
    """A work order that a robot carries out.

    :ivar link: the connection that it came by; its answer goes back by no other.
    :ivar lease_end: clock time when it is given up.
    :ivar start_by: clock time from which it is too late to begin: its hours are over.
    :ivar paid_at: clock time before which it must not begin.
    :ivar is_first: its provider had no other order here when it came.
    :ivar code: once it has ended: its error, 0: none.
    :ivar unchanged: once it has ended: the stored content is still the right one.
    :ivar wire_bytes: once it has ended: what had travelled.
    :ivar retry_seconds: once it has ended: how long its web server asks to be left alone; 0: it does not.
    """

    __slots__ = (
        "_begun",
        "_clock",
        "_ended_for",
        "_fetching",
        "_sink",
        "code",
        "fetch",
        "is_first",
        "lease_end",
        "link",
        "paid_at",
        "retry_seconds",
        "start_by",
        "unchanged",
        "wire_bytes",
    )

    def __init__(self, fetch: Fetch, link: Upstream, clock: IReactorTime) -> None:
        self.fetch = fetch
        self.link = link
        self._clock = clock
        self._begun = clock.seconds()
        sent = link.sent_seconds(fetch.sent_ms)
        self.lease_end = sent + fetch.lease_seconds
        self.start_by = inf if fetch.start_seconds is None else sent + fetch.start_seconds
        # From now: the time when it was sent is known as a little less than it was, which is too early here.
        self.paid_at = self._begun + fetch.owed_ms / 1000 if fetch.owed_ms else 0.0
        self.is_first = True
        self.code = 0
        self.unchanged = False
        self.wire_bytes = 0
        self.retry_seconds = 0
        self._sink: IAttemptFile | None = None
        self._fetching: Deferred[Fetched] | None = None
        self._ended_for: FetchError | None = None

    @property
    def begun(self) -> float:
        """Clock time when it was begun, or came in."""
        return self._begun

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return 0 if self._sink is None else self._sink.size_bytes

    @property
    def stored_bytes(self) -> int:
        """Once it has ended: of the content that it has stored."""
        return 0 if self.code or self.unchanged else self.size_bytes

    @property
    def seconds(self) -> float:
        """Since it was begun."""
        return max(0.0, self._clock.seconds() - self._begun)

    def start(
        self, fetcher: IFetcher | None, sinks: Callable[[str], IAttemptFile], rule: Callable[[str, bool], Follow]
    ) -> Deferred[str]:
        """Fetch.

        :param rule: gives the rule for redirects from the order's roots.
        :return: fires with the answer as it goes over the wire; never fails.
        """
        self._begun = self._clock.seconds()
        fetch = self.fetch
        try:
            if self._begun >= self.start_by:
                raise FetchError("hours-over")
            if self._begun >= self.lease_end:
                raise FetchError("deadline", "the order's time was over before it began")
            if fetcher is None:
                raise FetchError("scheme-unsupported", fetch.url.partition(":")[0][:40])
            sink = self._sink = BatchSink(sinks, fetch.attempt, fetch.files) if fetch.files else sinks(fetch.attempt)
            fetching: object = fetcher.fetch(fetch.order(), sink, rule(fetch.roots, fetch.polled))
            if not isinstance(fetching, Deferred):
                raise TypeError(f"the fetcher for {fetcher.schemes[0]} gives no Deferred but {fetching!r:.100}")
            self._fetching = fetching
        except Exception:
            answer: Deferred[str] = Deferred()
            answer.callback(self._failed(Failure()))
            return answer
        return fetching.addCallback(self._fetched).addErrback(self._failed)

    def end(self, why: FetchError) -> None:
        """End the fetch at once; its answer is this error."""
        self._ended_for = why
        if self._fetching is not None:
            self._fetching.cancel()

    @property
    def told_to_end(self) -> bool:
        """It was ended; its answer comes in a moment."""
        return self._ended_for is not None

    def abandon(self) -> str:
        """It was told to end and goes on: leave it alone.  Its answer; what the fetcher says now counts no longer."""
        _log.error("The fetcher does not cancel {url}; abandoning it", url=self.fetch.url)
        return self._failed(Failure(self._ended_for))

    def is_too_late(self, now: float) -> bool:
        """It waits, and must not be begun any more."""
        return now >= self.lease_end or now >= self.start_by

    def never_started(self, owed_seconds: float) -> str:
        """The answer to an order that is not begun.

        :param owed_seconds: nothing of its provider may begin for so long.
        """
        over = self._clock.seconds() >= self.start_by
        why = FetchError("hours-over" if over else "handed-back")
        return answers.failed(self.fetch, why, 0, owed_ms=ceil(owed_seconds * 1000))

    def _fetched(self, fetched: Fetched) -> str:
        self.wire_bytes = fetched.wire_bytes
        sink = self._sink
        assert sink is not None
        if fetched.unchanged:
            if not self.fetch.stored:
                raise FetchError("bad-response", "not modified, though the request was not conditional")
            sink.discard()
            self.unchanged = True
            return answers.unchanged(self.fetch, fetched, self._elapsed_ms())
        if fetched.status and not 200 <= fetched.status < 300:
            raise FetchError.from_status(fetched.status)
        if not is_expected(self.fetch.mimetype, fetched.mimetype):
            raise FetchError("mimetype-mismatch", f"told {self.fetch.mimetype}, got {fetched.mimetype[:100]}")
        sink.close()
        files = sink.stored if isinstance(sink, BatchSink) else ""
        return answers.stored(self.fetch, fetched, sink.size_bytes, sink.md5, self._elapsed_ms(), files)

    def _failed(self, failure: Failure) -> str:
        if self._sink is not None:
            self._sink.discard()
        error = failure.value
        self.wire_bytes = getattr(error, "wire_bytes", 0) or self.wire_bytes
        if self._ended_for is not None:
            error = self._ended_for
        elif not isinstance(error, (FetchError, OSError)):
            _log.failure("Unexpected error while fetching {url}", failure=failure, url=self.fetch.url)
        self.code = answers.error_code(error)
        self.retry_seconds = getattr(error, "retry_seconds", 0)
        return answers.failed(self.fetch, error, self._elapsed_ms(), self.wire_bytes, self.retry_seconds)

    def _elapsed_ms(self) -> int:
        return int(self.seconds * 1000)
