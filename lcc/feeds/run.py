"""A run of the feed worker: the seed's ten stages in order, each the plugin's.

::

    open -> fetch -> fetchclean -> parse -> filter -> clean, process (each item) -> storefeed -> store (each) -> close

What a run stores or notifies takes effect only if all stages succeeded, in one transaction with the end of the job:
a stage that fails leaves nothing behind, and a job may be run again.  ``close`` is called whenever ``open`` was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Protocol, TypeVar

import attrs

from lcc.feeds.faults import FeedFault, TemporaryFeedFault
from lcc.feeds.parsing import ParseLimits
from lcc.interfaces import IFeedPlugin
from lcc.model.feeds import PageText
from lcc.model.items import text_object

T = TypeVar("T")

STAGES = ("open", "fetch", "fetchclean", "parse", "filter", "clean", "process", "storefeed", "store", "close")


class Effects(Protocol):
    """What a job leaves behind; nothing of it before the job's end (``lcc.worker.Job``)."""

    def log(self, text: str) -> None:
        """Write a row into the job's log."""

    def store(self, item: Mapping[str, Any]) -> None:
        """Store an object of ``lcc.model.items``."""

    def notify(self, url: str, source: str) -> None:
        """Put a URL into the queue."""


@attrs.frozen
class RunLimits:
    """
    :ivar content_bytes_max: longer documents are refused.
    :ivar text_chars_max: of the text of an item or page; what is longer is cut.
    :ivar record_bytes_max: of an item as JSON; one that is longer loses its content.
    :ivar stored_bytes_max: of all items of a document together; the last ones lose their content then, or are left
        out.  It is well below what the scheduler takes at once (``[scheduler] effects_max``).
    """

    content_bytes_max: int = 16_000_000
    text_chars_max: int = 200_000
    record_bytes_max: int = 900_000
    stored_bytes_max: int = 6_000_000
    parse: ParseLimits = ParseLimits()


class FeedRun:
    """What the stages of a run share.

    :ivar url: of the feed or page.
    :ivar base: what it was fetched from, after redirects.
    :ivar content_type: as the server said.
    :ivar links: the values of its header fields ``Link``, a line each.
    :ivar policy: by what the feed's items are known; empty: not decided yet.
    :ivar feed_id: of the feed (its task); empty: none.
    :ivar item: the identity of the item whose page this is, in hexadecimal; empty: it is none's.
    :ivar key: of the page, 40 hexadecimal digits; empty: it is none of the cache.
    :ivar md5: of its content.
    :ivar permalinks: which of those of new items are put into the queue: of no host, of the feed's own
        (``lcc.model.feed_options.SAME_HOST``), or of any.
    :ivar options: the plugin's own.
    :ivar own: for a plugin that keeps something from stage to stage.
    :ivar now: seconds since 1970.
    """

    def __init__(
        self,
        url: str,
        source: IO[bytes] | None,
        effects: Effects,
        *,
        now: int,
        base: str = "",
        content_type: str = "",
        links: str = "",
        policy: str = "",
        feed_id: str = "",
        item: str = "",
        key: str = "",
        md5: str = "",
        permalinks: str = "",
        options: Mapping[str, str] | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        self.url = url
        self.base = base or url
        self.content_type = content_type
        self.links = links
        self.policy = policy
        self.feed_id = feed_id
        self.item = item
        self.key = key
        self.md5 = md5
        self.permalinks = permalinks
        self.options = options or {}
        self.limits = limits or RunLimits()
        self.now = now
        self.own: dict[str, Any] = {}
        self._source = source
        self._effects = effects
        self._after: list[Callable[[], None]] = []

    def log(self, text: str) -> None:
        """Write a row of the job's log."""
        self._effects.log(text)

    def content(self) -> bytes:
        """What the robot fetched.

        :raises FeedFault: nothing was, or it is too long.
        """
        if self._source is None:
            raise FeedFault("no content was fetched for this job")
        limit = self.limits.content_bytes_max
        data = self._source.read(limit + 1)
        if len(data) > limit:
            raise FeedFault(f"the document has more than {limit:,} bytes, the most that is read")
        return data

    def notify(self, url: str) -> None:
        """Put a URL into the queue, as a hint of this feed, once the job has succeeded."""
        self._after.append(lambda: self._effects.notify(url, "feed"))

    def store_object(self, stored: Mapping[str, Any]) -> None:
        """Store an object of ``lcc.model.items`` once the job has succeeded."""
        self._after.append(lambda: self._effects.store(stored))

    def store_text(self, text: PageText) -> None:
        """Store the text of this page once the job has succeeded.

        :raises FeedFault: the job is not for a page of the cache.
        """
        if not self.key:
            raise FeedFault("this job is not for a page of the cache")
        self.store_object(text_object(self.key, self.md5, text))

    def finish(self) -> None:
        """The stages have succeeded: pass on what they did."""
        for effect in self._after:
            effect()


def run_stages(plugin: IFeedPlugin, run: FeedRun) -> None:
    """All stages.

    :raises FeedFault: naming the stage that failed.
    """
    _stage("open", plugin.open, run)
    try:
        data = _stage("fetch", plugin.fetch, run)
        data = _stage("fetchclean", plugin.fetchclean, run, data)
        info, items = _stage("parse", _pair, plugin.parse, run, data)
        items = _stage("filter", _listed, plugin.filter, run, items)
        items = [_stage("clean", plugin.clean, run, item) for item in items]
        items = [_stage("process", plugin.process, run, item) for item in items]
        _stage("storefeed", plugin.storefeed, run, info, items)
        for item in items:
            _stage("store", plugin.store, run, item)
    except FeedFault:
        try:
            plugin.close(run)
        except Exception as error:
            run.log(f"close: {_words(error)}")
        raise
    _stage("close", plugin.close, run)
    run.finish()


# What a stage gives is taken apart within it: it may be a generator, or nothing of the kind.


def _pair(parse: Callable[..., tuple[Any, Iterable[Any]]], *arguments: Any) -> tuple[Any, list[Any]]:
    info, items = parse(*arguments)
    return info, list(items)


def _listed(stage: Callable[..., Iterable[T]], *arguments: Any) -> list[T]:
    return list(stage(*arguments))


def _stage(name: str, function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except FeedFault as error:
        raise type(error)(f"{name}: {error}") from error
    except OSError as error:
        raise TemporaryFeedFault(f"{name}: {_words(error)}") from error
    except MemoryError as error:
        raise FeedFault(f"{name}: out of memory ([manager] memory_bytes)") from error
    except Exception as error:
        raise FeedFault(f"{name}: the plugin should be mended: {_words(error)}") from error


def _words(error: Exception) -> str:
    return f"{error!r:.500}"
