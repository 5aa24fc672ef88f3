"""Plugins of the spider: filters, what finds links, and what keeps pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    # Only for whoever has these plugins: all roles import this package.
    from lcc.model.spider.candidates import Candidate, Facts, FilterRules
    from lcc.model.spider.crawls import (
        Crawl,
        CrawlSettings,
        FoundUrl,
        FrontierBatch,
        HostRef,
        KnownUrl,
        Owners,
        ReadUrl,
        ReadyHost,
        SpiderClaim,
        SpiderOrder,
        SpiderStatus,
        Telling,
        ToldUrl,
        Trap,
        UrlAnswer,
        UrlOrder,
    )
    from lcc.model.spider.links import Page, PageLinks


class ILinkExtractor(Interface):
    """Finds the links of documents of some types: a ``twisted.plugin`` in ``lcc/spider/extractors/plugins``
    (doc/spider.md).  It is called in a worker process with limits of memory and time."""

    name: str = Attribute("Names it among all extractors.")
    mimetypes: Collection[str] = Attribute("Those it reads: type/subtype, lower case.")

    def extract(content: bytes, found: Any) -> None:
        """Hand the links over in the order of the document.

        :param content: the document, or its beginning.
        :param found: knows what else there is to know of the page, and takes what is found:
            :class:`lcc.spider.extractors.found.Found`.  It raises ``Full`` at its limits, which the caller expects.
        """


class IPageStore(Interface):
    """Keeps what a spider has read: a ``twisted.plugin`` in ``lcc/spider/stores/plugins`` (doc/spider.md)."""

    name: str = Attribute("Names it among all stores, in ``[spider] stores`` and in the frontier.")
    summary: str = Attribute("A few words for people.")
    wants_text: bool = Attribute("It keeps the texts of pages: they are extracted only if a store wants them.")

    def open(folder: Path, place: str, disk: Any, settings: Any) -> Any:
        """An :class:`IOpenStore` that continues at this place: what was written behind it is taken back.

        :param folder: its own; it exists.
        :param place: as ``flush`` gave it and the frontier has it; empty: at the beginning.
        :param disk: a :class:`lcc.storage.disk.file_system.Disk`.
        :param settings: a :class:`lcc.model.spider.links.StoreSettings`.
        :raises OSError: it cannot be opened; may be tried again.
        """


class IOpenStore(Interface):
    """An open store.  It is called in a thread, one call at a time; whatever it raises means that it is to be closed,
    and opened again, after a while, at the last place that the frontier has."""

    def write(pages: Sequence[tuple[Page, PageLinks]]) -> None:
        """Take pages with their links, in order.

        :raises OSError: it cannot.
        """

    def flush() -> str:
        """Bring all that was taken to the disk; gives the place behind it.

        :raises OSError: it cannot.
        """

    def close() -> None:
        """It is not needed any longer; what was not flushed may be lost."""


class IFrontierRules(Interface):
    """The rules of the frontier, used by its store (pure: :class:`lcc.domain.spider.rules.FrontierRules`)."""

    window: int = Attribute("URLs of a host that are told and not answered, at most.")
    parked_max_seconds: int = Attribute("A host is parked for so long at most.")
    told_wait_seconds: int = Attribute("After a URL was told, or asked for, until it is asked what became of it.")
    url_failures_max: int = Attribute("How often a URL is told that fails because of its host.")

    def host_key(root: str) -> bytes:
        """The key of a host."""

    def owner_of(url: str, owners: Owners) -> int:
        """Whose a URL is, as :func:`lcc.domain.urls.owner_of` says."""

    def host_place(root: str) -> tuple[str, str, int]:
        """The host of a root, its registered domain, its bucket."""

    def rank(order: UrlOrder, depth: int, inlinks: int, cash: int) -> int:
        """The rank of a URL that waits: the lowest is told first."""

    def start_cash(order: UrlOrder) -> int:
        """The cash of a URL that nothing links to."""

    def shares(cash: int, count: int) -> list[int]:
        """What each of so many links gets of a page's cash."""

    def history(former: int, handed_on: int, seconds: int) -> int:
        """The importance of a page after a visit, so many seconds after the one before."""

    def interval(settings: CrawlSettings, former_seconds: int, changed: bool | None) -> int:
        """Seconds from a visit to the next; 0: there is none.

        :param changed: since the last visit; None: this is the first."""

    def interval_after_error(settings: CrawlSettings, former_seconds: int) -> int:
        """Seconds until a URL that has failed is tried again; 0: never."""

    def due(now: int, interval_seconds: int) -> int:
        """The rank of a URL that was visited: when it is looked at again."""

    def ready_time(
        waiting: int,
        told: int,
        due_time: int | None,
        parked_time: int,
        excluded: bool,
        ready_time: int | None,
        now: int,
    ) -> int | None:
        """From when on URLs of a host can be told; None: there are none, or no room.

        :param waiting, told: its URLs.
        :param due_time: when the first of its URLs is looked at again; None: never.
        :param ready_time: as it was found last."""

    def turn(told: int, waiting: int, due: int) -> tuple[int, int]:
        """How many of the URLs of a host that wait, and of those that are to be looked at again, are told now."""

    def is_fault_of_host(code: int) -> bool:
        """Whether an error says more of the host than of the URL."""

    def fail_host(failures: int, parkings: int, now: int) -> tuple[int, int, int]:
        """One more failure of a host: failures in a row, parkings in a row, until when it is parked (0: not)."""

    def park_host(parkings: int, now: int) -> tuple[int, int, int]:
        """A host is parked: as :meth:`fail_host`."""

    def is_full(hosts: int, settings: CrawlSettings, domain_hosts: int) -> str:
        """Why a crawl takes no more hosts of a domain: the counter of what is dropped; empty: it does."""


class IFrontier(Interface):
    """The frontier of all crawls (:mod:`lcc.storage.spider.store`), written by spiders only.

    Every method returns a Deferred that fails with StoreUnavailable if the database is unreachable (the caller
    repeats the call), and with Busy once another spider has taken over the buckets of this one (:meth:`retire`), or a
    newer one of its name has claimed them: then it begins again with :meth:`claim`.  All writes are made in one
    thread, in the order of the calls; each may be repeated."""

    def claim(name: str) -> Deferred[SpiderClaim]:
        """Become the spider of this name; the former one of this name is fenced off, and its buckets are this one's.
        To be called first."""

    # Buckets: who reads and tells which hosts.

    def spiders() -> Deferred[list[SpiderStatus]]:
        """All spiders that have not ended, this one included."""

    def beat(trouble: str, now: int) -> Deferred[None]:
        """Show that this spider lives.

        :param trouble: what it waits for, for people; empty: nothing."""

    def retire(run: int, beats: int) -> Deferred[bool]:
        """Another spider is lost, as far as this one can see: its buckets are free from now on, and it is fenced off.

        :param beats: as they were all the time; False: there are more by now, nothing is changed."""

    def take_buckets(wanted: int) -> Deferred[dict[int, str]]:
        """Take free buckets until this spider has so many; gives all that it has, with their tokens (empty: from the
        beginning)."""

    def give_buckets(buckets: Collection[int]) -> Deferred[None]:
        """Let others have these."""

    def end() -> Deferred[None]:
        """This spider ends: its buckets are free."""

    # Crawls.

    def crawls() -> Deferred[list[Crawl]]:
        """All of them."""

    def open_orders(limit: int) -> Deferred[list[SpiderOrder]]:
        """The next orders of operators, in the order in which they were given."""

    def carry_out(order: SpiderOrder, starts: Sequence[FoundUrl], now: int) -> Deferred[None]:
        """Carry out an order, unless another spider has; what it cannot do is answered with an error.

        :param starts: the URLs of its ``starts`` that passed the filters, named by the crawl's rules."""

    def refuse_order(order: SpiderOrder, why: str, now: int) -> Deferred[None]:
        """Answer an order with an error, unless another spider has answered it."""

    def remove_page() -> Deferred[bool]:
        """Delete a bounded number of rows of a crawl that is being removed; False: there is none."""

    # Reading.

    def places() -> Deferred[dict[str, str]]:
        """Where each store of this spider stands, and how far what else it reads was read, by name; as the last batch
        said."""

    def backlog(store: str, after: bytes, limit: int) -> Deferred[dict[bytes, int]]:
        """Pages that a store of this spider lacks, key in the cache -> number of the change, in order of the keys.

        :param after: the last key that is known; empty: from the first."""

    def known(crawl: int, keys: Collection[bytes]) -> Deferred[dict[bytes, KnownUrl]]:
        """Those of these URLs that the frontier has."""

    def read_urls(crawl: int, after: bytes, limit: int) -> Deferred[list[ReadUrl]]:
        """URLs whose pages were read, whatever became of them, those of other spiders too, in order of their keys.

        :param after: the last key that is known; empty: from the first."""

    def trap_counts(traps: Collection[Trap]) -> Deferred[dict[Trap, int]]:
        """Counts above 0."""

    def commit(batch: FrontierBatch, now: int) -> Deferred[Mapping[int, Mapping[bytes, int]]]:
        """Save what was read, in one transaction, durable when the Deferred fires.

        The version of a page that was committed last counts no more, nor do its links; so pages may come again (after
        a crash, or with a bucket of another spider).  New URLs and hosts above the crawl's limits are dropped, and
        counted.

        :returns: by crawl and key, from which depth on links to a URL change nothing of it
            (:meth:`lcc.model.spider.crawls.UrlRow.settled_depth`); it is so for ever.  Of some URLs of the batch."""

    def bound_waits(crawl: int, after: bytes, now: int) -> Deferred[bytes | None]:
        """The wall clock may have been set back: pull in what waits for too long in this crawl, a page of hosts at a
        time.

        :param after: as the call before gave it; empty: at the beginning.
        :returns: where to go on; None: that was all."""

    # Telling.

    def ready_hosts(
        crawl: int, buckets: Collection[int], now: int, limit: int, after: ReadyHost | None = None
    ) -> Deferred[list[ReadyHost]]:
        """Hosts with URLs to tell now and room in their windows, those that have waited longest first.

        :param after: only those behind this one."""

    def hosts_this_hour(now: int) -> Deferred[int]:
        """Hosts that have become watched providers in this hour, of all spiders."""

    def watched(watched_hosts: Sequence[tuple[HostRef, int]], now: int) -> Deferred[None]:
        """The providers of hosts.  One that had none counts for this hour."""

    def forget_providers(crawl: int, buckets: Collection[int], now: int) -> Deferred[int]:
        """The hosts of these buckets have no providers, unless the crawl completes one: they are asked for again.

        :returns: the number of the last set so far: it, or one before it, may still have been of such a provider."""

    def fail_host(host: HostRef, code: int, now: int) -> Deferred[None]:
        """No provider was given for a host: it is parked, and tried again then.

        :param code: of the error table."""

    def tell(hosts: Mapping[HostRef, Owners], now: int) -> Deferred[list[Telling]]:
        """Mark the next URLs of these hosts as told, as many as their windows take; gives the sets to be told, in
        order, one for each provider.  What is never told after all (a crash) is found by :meth:`told_urls`.

        :param hosts: with the roots that providers have there; what lies in none is the host's own provider's."""

    def told_hosts(crawl: int, buckets: Collection[int], now: int, limit: int) -> Deferred[list[ReadyHost]]:
        """Hosts with URLs that were told ``told_wait`` seconds ago or earlier, and not asked for since."""

    def told_urls(host: HostRef, before: int, limit: int) -> Deferred[list[ToldUrl]]:
        """The URLs of a host that were told earliest, before this time, and have no answer."""

    def answer(answers: Sequence[UrlAnswer], asked: Sequence[HostRef], now: int) -> Deferred[None]:
        """What became of URLs that were told.  (What is cached and was not read yet is no answer: read it, and
        :meth:`commit`.)  A page that was read may go, or be lost: then it is told again.

        :param asked: hosts that need not be asked for again for a while."""


class IUrlFilter(Interface):
    """Decides which URLs enter a spider's frontier: a ``twisted.plugin`` in ``lcc/spider/filters/plugins``
    (doc/spider.md)."""

    name: str = Attribute("Names it among all filters; ``[spider] filters`` and the counts of crawls have it.")
    summary: str = Attribute("A few words for people.")
    needs_facts: bool = Attribute("It judges by what the frontier knows; without, candidates need no look-up.")

    def build(rules: FilterRules) -> Callable[[Candidate, Facts], str | None]:
        """The filter for one crawl: it returns why a candidate does not pass, or None.

        It is called for each link, in the reactor's thread: it takes microseconds whatever the URL, and keeps
        nothing of it.  Facts are empty if it needs none.

        :raises ConfigError: the crawl's rules make no sense.
        """
