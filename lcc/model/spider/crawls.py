"""Crawls: what a spider follows, and how far it has come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import attrs

BUCKETS = 64
"""Hosts are shared among spiders by these: :func:`bucket_of`."""

URLS_MAX, HOSTS_MAX, DOMAIN_HOSTS_MAX = "urls-max", "hosts-max", "domain-hosts-max"
"""Limits of a crawl, as counters of what they keep out."""
CRAWL_NAME_CHARS_MAX = 64
TRAP_KEY_BYTES_MAX = 16
NEVER = 1 << 40
"""A time that does not come."""


def bucket_of(host: str) -> int:
    """The bucket that a host belongs to.

    :param host: lower case, with its port if that is not the default.
    """
    return crc32(host.encode()) % BUCKETS


class UrlOrder(Enum):
    """Which of the URLs of a host is told first."""

    DEPTH = "depth"
    """Fewest links from the start first: breadth first."""
    INLINKS = "inlinks"
    """Most pages with a link to it first."""
    OPIC = "opic"
    """Most important first: pages hand their importance on to those that they link to."""


class CrawlState(Enum):
    """Whether URLs of a crawl are told."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing is told; pages that come are read all the same."""
    REMOVING = "removing"
    """Its rows are being deleted."""


class UrlState(IntEnum):
    """What became of a URL of the frontier."""

    WAITING = 0
    """Never told."""
    TOLD = 1
    """Told to the LCC, and not answered yet."""
    CACHED = 2
    """The cache has it, and its links were read."""
    FAILED = 3
    """The LCC has given it up."""
    GONE = 4
    """404 or 410."""
    REFUSED = 5
    """Not fetched: robots.txt, the provider's roots or quotas do not allow it."""


@attrs.frozen
class CrawlSettings:
    """What an operator says of a crawl.

    :ivar restrict_to: regular expression that the compare URL must match; empty: all (where ``roots`` say the scope).
    :ivar pid: the provider that it completes; 0: each host in the scope becomes a watched provider.
    :ivar roots: of that provider.
    :ivar names: preset of the normaliser: ``safe`` or ``larm``.
    :ivar host_resolver: text of a HostResolver file; empty: none.
    :ivar depth_max: links from the start at most; None: any number.
    :ivar urls_max: known URLs at most; 0: any number.
    :ivar hosts_max: hosts at most; 0: any number.
    :ivar revisit_seconds: when a page is looked at again for the first time; 0: never.
    :ivar revisit_least_seconds, revisit_most_seconds: bounds of what follows from its changes.
    :ivar allow_private: its watched providers may have private addresses.
    """

    restrict_to: str = ""
    pid: int = 0
    roots: tuple[str, ...] = ()
    names: str = "safe"
    host_resolver: str = ""
    order: UrlOrder = UrlOrder.DEPTH
    depth_max: int | None = None
    urls_max: int = 0
    hosts_max: int = 0
    revisit_seconds: int = 0
    revisit_least_seconds: int = 3600
    revisit_most_seconds: int = 90 * 86400
    allow_private: bool = False


@attrs.frozen
class Crawl:
    """A crawl.

    :ivar id: never given twice.
    :ivar excluded: hosts, as :attr:`HostRow.host`, whose URLs are not followed.
    :ivar version: changes with its settings, state and excluded hosts.
    """

    id: int
    name: str
    settings: CrawlSettings
    state: CrawlState
    created_time: int
    excluded: frozenset[str]
    version: int


class FoundUrl(NamedTuple):
    """A URL that passed the filters (:func:`lcc.domain.spider.keys.found_url`).

    :ivar key: of its compare URL.
    :ivar root: of all that its host and port have; of the URL that is fetched (``https://host:port/``).
    :ivar path: what follows the root.
    """

    key: bytes
    root: str
    path: str

    @property
    def furl(self) -> str:
        """The URL that is fetched."""
        return self.root + self.path


class ReadPage(NamedTuple):
    """A page whose links were read, for one crawl.

    :ivar change, md5: number of the row's change, and md5 of its content, in hexadecimal: its version.  If it is the
        one that the URL was read in last, it was committed before.
    :ivar links: that passed the filters; a URL counts once.
    :ivar settled: keys of further ones, of URLs of which they change nothing (:meth:`UrlRow.settled_depth`).
    :ivar depth: of the links, as it was when that was found out; they may be nearer by now.
    """

    crawl: int
    url: FoundUrl
    change: int
    md5: str
    links: Sequence[FoundUrl]
    settled: Collection[bytes] = ()
    depth: int = 0


class Redirect(NamedTuple):
    """A URL of a crawl redirects to another host, where it was not followed.

    :ivar target: passed the filters.
    """

    crawl: int
    url: FoundUrl
    target: FoundUrl


class Trap(NamedTuple):
    """A pattern of URLs of a host that a filter counts.

    :ivar key: of the pattern, at most :data:`TRAP_KEY_BYTES_MAX`.
    """

    crawl: int
    root: str
    key: bytes


class StoreWork(NamedTuple):
    """What a store made of some pages.

    :ivar place: where it stands, as it said; None: it cannot write, and stands where it did.
    :ivar fault: why it cannot write; empty: it can.
    :ivar lacks: versions of pages that it could not take, key in the cache -> number of the change; they are its
        backlog, which it gets later.
    :ivar has: keys of pages that are in its backlog no longer.
    """

    place: str | None
    fault: str = ""
    lacks: Mapping[bytes, int] = MappingProxyType({})
    has: Collection[bytes] = ()


class StoreTrouble(NamedTuple):
    """A store that lacks pages.

    :ivar spider: whose it is.
    :ivar fault: why it cannot write; empty: it can by now.
    :ivar backlog: pages that it lacks.
    """

    spider: str
    store: str
    fault: str
    backlog: int


@attrs.frozen
class FrontierBatch:
    """What a spider has read: takes effect as a whole.

    :ivar pages: in the order of their changes.
    :ivar tokens: by bucket: where to read on in the changes of the cache.
    :ivar places: by name of what else is read: how far.
    :ivar dropped: by crawl and filter: links that it has dropped, added to what it has dropped so far.
    :ivar traps: by pattern: added to its count.
    :ivar stores: what the stores made of the pages, by name.
    :ivar redirects: their targets are known from then on.
    :ivar caught_up: crawls that complete a provider: all is read that the cache had of it.
    """

    pages: Sequence[ReadPage] = ()
    tokens: Mapping[int, str] = attrs.field(factory=dict)
    places: Mapping[str, str] = attrs.field(factory=dict)
    dropped: Mapping[tuple[int, str], int] = attrs.field(factory=dict)
    traps: Mapping[Trap, int] = attrs.field(factory=dict)
    stores: Mapping[str, StoreWork] = attrs.field(factory=dict)
    redirects: Sequence[Redirect] = ()
    caught_up: Sequence[int] = ()


@attrs.define
class UrlRow:
    """A row of the frontier: a URL.

    :ivar host: key of the host that it is fetched from.
    :ivar path: what follows the root of that.
    :ivar rank: ``WAITING``: lowest first; ``TOLD``: when; else when it is looked at again (:data:`NEVER`).
    :ivar parent: key of the page that it was found on first; empty: a start.
    :ivar cash, history: importance (OPIC): not handed on yet; in the window of history.
    :ivar change, md5: of the content that was read last (md5 as 16 bytes); 0 and empty: none was.
    :ivar checked_time: when it was known last that this is its content, or its error; 0: never.
    :ivar interval_seconds: until it is looked at again.
    :ivar code: of its last error; 0: none.
    :ivar failures: errors in a row.
    :ivar told_set: number of the set that told it last; 0: none.
    """

    crawl: int
    key: bytes
    host: bytes
    path: str
    state: UrlState
    rank: int
    depth: int
    inlinks: int
    parent: bytes
    cash: int
    history: int
    change: int
    md5: bytes
    checked_time: int
    interval_seconds: int
    code: int
    failures: int
    told_set: int

    def settled_depth(self, order: UrlOrder) -> int | None:
        """From which depth on a link to it changes nothing of it any more; None: any link may.

        :param order: of its crawl.
        """
        return self.depth if order is UrlOrder.DEPTH or self.change else None

    def is_version(self, change: int, md5: str) -> bool:
        """Whether this version of its page was read last.

        The greater of two numbers says nothing: they may be of two timelines of the cache, as after a backup was put
        back, or of two sub-LCCs behind a front end.

        :param md5: hexadecimal.
        """
        return change == self.change and md5 == self.md5.hex()


@attrs.define
class KnownUrl(UrlRow):
    """A URL of the frontier.

    :ivar root: of its host.
    """

    root: str

    @property
    def furl(self) -> str:
        """The URL that is fetched."""
        return self.root + self.path


class HostRef(NamedTuple):
    """A host of a crawl."""

    crawl: int
    root: str


class ReadyHost(NamedTuple):
    """A host with URLs to tell.

    :ivar pid: its provider; 0: none has been asked for.
    :ivar time, bucket, key: its place among the others: since when it is ready, its bucket, and its key.
    """

    crawl: int
    root: str
    pid: int
    time: int = 0
    bucket: int = 0
    key: bytes = b""


class ToldUrl(NamedTuple):
    """A URL that is told.

    :ivar recheck: the LCC has it, as far as the frontier knows: it is looked at again.
    :ivar told_set: number of the set that told it.
    :ivar told_time: when.
    """

    key: bytes
    path: str
    recheck: bool
    told_set: int = 0
    told_time: int = 0


class ReadUrl(NamedTuple):
    """A URL that was read, as the frontier has it.

    :ivar bucket: of its host.
    :ivar pid: its host's provider; 0: not asked for yet.
    :ivar change, md5: as :class:`UrlRow` has them, the md5 hexadecimal.
    """

    key: bytes
    bucket: int
    pid: int
    url: str
    state: UrlState
    change: int
    md5: str


Owners = Sequence[tuple[str, int]]
"""Root and provider, in the order in which they count: a URL is that of the first one with a root that it lies in."""


class Telling(NamedTuple):
    """A set to be told to the UNS.

    :ivar number: above those of all sets before it of this spider's epoch.
    """

    number: int
    crawl: int
    root: str
    pid: int
    urls: tuple[ToldUrl, ...]


class Verdict(Enum):
    """What became of a URL that was told."""

    UNCHANGED = "unchanged"
    """The cache has it, and that content was read."""
    FAILED = "failed"
    GONE = "gone"
    REFUSED = "refused"
    LOST = "lost"
    """The LCC knows nothing of it: it is told again."""
    FULL = "full"
    """A quota of its provider is full: its host is parked, and it is told again then."""


class UrlAnswer(NamedTuple):
    """What became of a URL that was told; or, if it was read, of its page (``GONE``, ``LOST``).

    :ivar told_set: the set that told it; an answer to another one is ignored; 0: whichever.
    :ivar code: the error; 0: none.
    :ivar respelled: ``GONE``: the path under which it is told next, if it was never there; None: it is not.
    """

    crawl: int
    key: bytes
    verdict: Verdict
    told_set: int = 0
    code: int = 0
    respelled: str | None = None


@attrs.define
class HostRow:
    """A row of the frontier: a host of a crawl.

    :ivar domain: its registered domain.
    :ivar known, waiting, told, cached: URLs.
    :ivar failures: of the host, in a row.
    :ivar parked_time: until when nothing of it is told; 0: it is not parked.
    :ivar parkings: how often it was parked in a row.
    :ivar code: of its last failure; 0: none.
    :ivar due_time: when the first of its URLs is looked at again; None: never.
    :ivar ready_time: from when on URLs of it can be told; None: there are none, or no room.
    :ivar ask_time: when it is asked what became of those that were told; None: there are none.
    """

    crawl: int
    key: bytes
    root: str
    domain: str
    bucket: int
    pid: int
    excluded: bool
    known: int = 0
    waiting: int = 0
    told: int = 0
    cached: int = 0
    failures: int = 0
    parked_time: int = 0
    parkings: int = 0
    code: int = 0
    due_time: int | None = None
    ready_time: int | None = None
    ask_time: int | None = None

    @property
    def host(self) -> str:
        """Lower case, with the port if that is not the default."""
        return self.root.partition("://")[2].rstrip("/")

    def will_be_due(self, when: int) -> None:
        """One of its URLs is to be looked at again then."""
        if self.due_time is None or when < self.due_time:
            self.due_time = when


@attrs.frozen
class CrawlStatus:
    """How far a crawl has come.

    :ivar counts: by name.  URLs: ``known``, ``waiting`` (of these ``held``: their hosts are parked or excluded),
        ``told`` (for the first time), ``rechecks`` (told again), ``cached``, ``failed``, ``gone``, ``refused``.
        ``hosts``, ``parked`` (hosts).  What was read: ``pages``, ``links`` (that passed the filters); ``caught_up``:
        how often all was read that the cache had of its provider.
    :ivar dropped: links, by the filter that has dropped them, and by limit: ``urls-max``, ``hosts-max``,
        ``domain-hosts-max``; ``redirects``: of too many in a row.
    """

    crawl: Crawl
    counts: Mapping[str, int]
    dropped: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def is_done(self) -> bool:
        """Nothing is told, and nothing waits but for hosts that are parked; pages may be looked at again later.  What
        the cache had of a provider that it completes is read."""
        if self.crawl.settings.pid and not self.counts.get("caught_up", 0):
            return False
        return not self.counts.get("told", 0) and self.counts.get("waiting", 0) == self.counts.get("held", 0)


class SpiderClaim(NamedTuple):
    """A spider's right to write.

    :ivar run: names this run of the process; drawn once.
    :ivar epoch: of the numbers of its sets.
    """

    run: int
    epoch: str


class SpiderStatus(NamedTuple):
    """A spider, as others see it.

    :ivar beats: how often it has shown that it lives.
    :ivar buckets: those that it has.
    :ivar seen_time: when it has shown that last, by its own clock; 0: not yet.
    :ivar trouble: what it waited for then, for people; empty: nothing.
    """

    run: int
    name: str
    beats: int
    buckets: frozenset[int]
    seen_time: int = 0
    trouble: str = ""


class SpiderOrder(NamedTuple):
    """What an operator wants of spiders (``sporders``).

    :ivar kind: one of :mod:`lcc.storage.spider.orders`.
    :ivar crawl: its name.
    """

    id: int
    kind: str
    crawl: str
    body: Mapping[str, Any]


class CrawlHosts(NamedTuple):
    """A crawl with some of its hosts.

    :ivar hosts: those with the most known URLs; ``parked``: those that are left alone, the longest first.
    """

    status: CrawlStatus
    hosts: tuple[HostRow, ...]
    parked: tuple[HostRow, ...]


class SpidersSeen(NamedTuple):
    """All of the spiders that people see.

    :ivar stores: that cannot write, or lack pages.
    """

    spiders: Sequence[SpiderStatus]
    stores: Sequence[StoreTrouble]
    crawls: Sequence[CrawlHosts]
