"""Watched providers: sites that nobody has registered; and whose a URL is.

A watched provider has no password, one root, and the limits of ``[watched]``.  Once its owner registers that root, or
an operator gives it a password, it is a registered one: it keeps its id, and so its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import attrs

from lcc.config import WatchedConfig
from lcc.errors import LccError
from lcc.model import Provider
from lcc.storage.database.tables.locked_counter import locked_counter
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.providers import add_provider, change_provider, locked_provider

BY_OPERATOR, BY_ROBOTS = "operator", "robots.txt"
"""``pidb.interval_by``, ``pidb.hours_by``."""
CRAWL_DELAY_MAX = 300.0
"""No robots.txt makes an interval longer, in seconds: what asks for more would never be read again."""
_ROBOTS_ZONE = "UTC"
_SELECT_OWNERS = "SELECT r.root, p.watched, p.pid FROM proots r JOIN pidb p ON p.pid = r.pid"
_OWNERS = f"{_SELECT_OWNERS} WHERE p.removed = 0 AND r.root"
_OWNERS_THAT_LEFT = "SELECT r.root, r.watched, r.pid FROM leftroots r WHERE r.root"
_WATCHED_THERE = (
    "FROM proots r JOIN pidb p ON p.pid = r.pid WHERE r.root >= ? AND r.root < ? AND p.watched = 1 AND p.removed = 0"
)
_OTHER_SCHEMES = {"http": "https", "https": "http"}
_HOUR_SECONDS = 3600
_INDEXED_CHARS = 255
"""So much of a root is in its index: longer ones are looked up by their beginning."""
ROOTS_MAX = 1000
"""Of one host that are looked at."""
_ROOTS_OF_HOST = 8
"""So many roots of each host are read, where those of many are looked for: few have more."""


_Owner = tuple[str, bool, int]
"""Root, whether it is watched, provider."""
OwnerRank = tuple[int, bool, int]
"""Of a provider among those that have a place: the least has it.  The third is its id."""


class TooManyWatched(Exception):
    """A limit of ``[watched]`` is reached: of all providers, or of those of a registered domain."""


class SiteMoved(LccError):
    """The provider of a site has moved to another sub-LCC: no second one is made here (doc/moves.md).

    :ivar pid: its id.
    """

    def __init__(self, pid: int) -> None:
        super().__init__("site-moved", f"provider {pid}")
        self.pid = pid


class SeveralWatched(Exception):
    """The roots of one provider are watched by several."""


@attrs.frozen
class Asker:
    """On whose behalf a site is watched.

    :ivar domain: the registered domain of the site, by which its providers are counted; empty: they are not.
    :ivar now: seconds since 1970.
    :ivar private: an operator has said that the site may be on a private address; for a registered one only its own
        settings say so.
    :ivar capped: an operator does not ask himself: the limits of ``[watched]`` hold.
    """

    domain: str = ""
    now: int = 0
    private: bool = False
    capped: bool = True


SOMEBODY = Asker()
OPERATOR = Asker(capped=False)


def find_or_make_watched(txn: Txn, root: str, settings: WatchedConfig, asker: Asker = SOMEBODY) -> int:
    """The provider for what is noticed below this root: the one that is registered for it, or for a part of the site
    that it lies in; the one that watches it; else a new one that does.  However often this is done, there is one.

    :param root: normalised.
    :returns: its id.
    :raises TooManyWatched: there are too many already.
    :raises SiteMoved: it had one here, which is in another sub-LCC now.
    """
    pid = _provider_for(txn, root)
    if pid is None:
        locked_counter(txn, "pid")  # somebody else may be making it
        # Before its provider is looked for once more: that may leave before, or come back behind this statement.
        left = left_provider(txn, root)
        pid = _provider_for(txn, root)
        if pid is None and left is not None:
            raise SiteMoved(left)
    if pid is not None:
        if asker.private:
            _allow_private(txn, pid)
        return pid
    if asker.capped:
        _check_caps(txn, settings, asker)
    provider = attrs.evolve(watched_provider(root, settings), allow_private=asker.private)
    there = [*_of_host(root), BY_ROBOTS]
    asked = txn.value(f"SELECT MAX(p.interval_seconds) {_WATCHED_THERE} AND p.interval_by = ?", there)
    if asked is not None:
        provider = attrs.evolve(provider, interval_seconds=asked, interval_by=BY_ROBOTS)
    hours = txn.value(f"SELECT MAX(p.timeofday) {_WATCHED_THERE} AND p.hours_by = ?", there)
    if hours is not None:
        provider = attrs.evolve(provider, hours=hours, timezone=_ROBOTS_ZONE, hours_by=BY_ROBOTS)
    pid = add_provider(txn, provider)
    if asker.domain:
        txn.execute("UPDATE pidb SET domain = ?, made_time = ? WHERE pid = ?", [asker.domain, asker.now, pid])
    return pid


def _allow_private(txn: Txn, pid: int) -> None:
    provider = locked_provider(txn, pid)
    if provider is not None and provider.watched and not provider.allow_private:
        change_provider(txn, attrs.evolve(provider, allow_private=True))


def _check_caps(txn: Txn, settings: WatchedConfig, asker: Asker) -> None:
    """
    :raises TooManyWatched: there are too many already.
    """
    count = txn.value("SELECT COUNT(*) FROM pidb WHERE watched = 1 AND removed = 0", (), 0)
    if count >= settings.providers_max:
        raise TooManyWatched(f"{count} providers are watched already, the maximum ([watched] providers_max)")
    if not asker.domain:
        return
    sql = "SELECT COUNT(*) FROM pidb WHERE domain = ? AND watched = 1 AND removed = 0"
    count = txn.value(sql, [asker.domain], 0)
    if settings.domain_providers_max and count >= settings.domain_providers_max:
        limit = "the maximum ([watched] domain_providers_max)"
        raise TooManyWatched(f"{count} providers of {asker.domain} are watched already, {limit}")
    # Those of the future were made while the wall clock was wrong.
    hour = [asker.domain, asker.now - _HOUR_SECONDS, asker.now]
    count = txn.value(f"{sql} AND made_time > ? AND made_time <= ?", hour, 0)
    if settings.domain_providers_hourly and count >= settings.domain_providers_hourly:
        limit = "the maximum of new ones ([watched] domain_providers_hourly)"
        raise TooManyWatched(f"{count} providers of {asker.domain} are watched since an hour, {limit}")


def watch_site(
    txn: Txn, root: str, settings: WatchedConfig, crawl_delay_seconds: float, hours: str = "", asker: Asker = SOMEBODY
) -> int:
    """As :func:`find_or_make_watched`, of a whole host: its robots.txt asks for so much time between fetches, and for
    these hours (UTC; empty: any).

    That is the interval of all that is watched there, then and later, if it is longer than that of ``[watched]``, and
    these are its hours, as far as no operator has set others.  Registered providers are not asked for.
    """
    pid = find_or_make_watched(txn, root, settings, asker)
    asked = min(crawl_delay_seconds, CRAWL_DELAY_MAX)
    interval, by = (asked, BY_ROBOTS) if asked > settings.interval else (settings.interval or None, "")
    for (each,) in txn.query(f"SELECT DISTINCT p.pid {_WATCHED_THERE} ORDER BY p.pid", _of_host(root)):
        provider = changed = locked_provider(txn, each)
        if changed is None or not changed.watched:
            continue
        if changed.interval_by != BY_OPERATOR:
            changed = attrs.evolve(changed, interval_seconds=interval, interval_by=by)
        if changed.hours_by != BY_OPERATOR:
            changed = _with_hours(changed, hours)
        if changed != provider:
            change_provider(txn, changed)
    return pid


def _with_hours(provider: Provider, hours: str) -> Provider:
    if hours:
        return attrs.evolve(provider, hours=hours, timezone=_ROBOTS_ZONE, hours_by=BY_ROBOTS)
    return attrs.evolve(provider, hours="", timezone="", hours_by="")


def _of_host(root: str) -> tuple[str, str]:
    """Roots from the first of these on, and before the second, are on the host of this one."""
    host = _host(root)
    return f"{host}/", f"{host}{chr(ord('/') + 1)}"


def roots_of_sites(
    txn: Txn, sites: Collection[str], pids: Collection[int] | None
) -> dict[str, tuple[tuple[str, int], ...]]:
    """What providers have on each of these hosts, in the order in which it counts: root and provider, so many at
    most; hosts where none has anything are left out.

    :param sites: ``scheme://host[:port]/``, normal.
    :param pids: only of these providers; None: of any.
    """
    return {site: ranked_roots(owners) for site, owners in owners_of_sites(txn, sites, pids).items()}


def owners_of_sites(
    txn: Txn, sites: Collection[str], pids: Collection[int] | None
) -> dict[str, set[tuple[str, bool, int]]]:
    """As :func:`roots_of_sites`, in no order: root, whether it is watched, provider; to be joined with others."""
    within = "" if pids is None else f" AND r.pid IN ({','.join(map(str, sorted(pids))) or 'NULL'})"
    there_are = f"r.root >= ? AND r.root < ? AND p.removed = 0{within}"
    sql = f"{_SELECT_OWNERS} WHERE {there_are} ORDER BY r.root LIMIT {ROOTS_MAX}"
    # An http root admits https, too.
    spelled = {site: _spellings(site) for site in sites}
    hosts = sorted({spelling for each in spelled.values() for spelling in each})
    there: defaultdict[str, list[_Owner]] = defaultdict(list)
    for owner in map(_owner, txn.query_each(sql, [_of_host(site) for site in hosts])):
        there[f"{_host(owner[0])}/"].append(owner)
    found = {site: {owner for spelling in each for owner in there[spelling]} for site, each in spelled.items()}
    return {site: owners for site, owners in found.items() if owners}


def ranked_roots(owners: Iterable[tuple[str, bool, int]]) -> tuple[tuple[str, int], ...]:
    """Root and provider of these, in the order in which they count.

    :param owners: as :func:`owners_of_sites` has them.
    """
    return tuple((root, pid) for root, _, pid in sorted(owners, key=_rank))


def watched_provider(root: str, settings: WatchedConfig) -> Provider:
    """What watches this root, as it is made."""
    return Provider(
        pid=0,
        roots=(root,),
        password_hash="",
        bandwidth_bytes=settings.bandwidth_bytes or None,
        files_max=settings.files_max or None,
        space_max_bytes=settings.space_max_bytes or None,
        interval_seconds=settings.interval or None,
        watched=True,
    )


def watcher_of(txn: Txn, root: str) -> int | None:
    """The id of the provider that watches just this root, or else the same place by the other of http and https;
    None: there is none."""
    sql = (
        "SELECT MIN(p.pid) FROM proots r JOIN pidb p ON p.pid = r.pid"
        " WHERE r.root = ? AND p.watched = 1 AND p.removed = 0"
    )
    for spelling in (root, _other_scheme(root)):
        pid = txn.value(sql, [spelling])
        if pid is not None:
            return int(pid)
    return None


def _other_scheme(root: str) -> str:
    scheme, _, place = root.partition("://")
    return f"{_OTHER_SCHEMES.get(scheme, scheme)}://{place}"


def provider_of(txn: Txn, url: str) -> int | None:
    """Whose a URL is that somebody else has noticed: of the providers with a root that it begins with the one with
    the longest; of several with the same the registered one, of several of these the oldest.  None: nobody's.

    :param url: normalised.
    """
    owners = _owners(txn, url)
    return None if not owners else owners[0][2]


def providers_of(txn: Txn, urls: Collection[str]) -> dict[str, int]:
    """As :func:`provider_of`, of each of these URLs, in few statements; those of nobody are left out."""
    spelled = {url: _spellings(url) for url in urls}
    ranges = sorted({_of_host(spelling) for each in spelled.values() for spelling in each})
    limit = _ROOTS_OF_HOST * len(ranges)
    found = txn.query_ranges(_SELECT_OWNERS, "p.removed = 0 AND r.root >= ? AND r.root < ?", ranges, "r.root", limit)
    if ranges and len(found) >= limit:
        found = _roots_that_begin(txn, [spelling for each in spelled.values() for spelling in each])
    roots: defaultdict[str, list[_Owner]] = defaultdict(list)
    for owner in set(map(_owner, found)):
        roots[_host(owner[0])].append(owner)
    owners = {
        url: [owner for spelling in each for owner in roots.get(_host(spelling), ()) if spelling.startswith(owner[0])]
        for url, each in spelled.items()
    }
    return {url: min(each, key=_rank)[2] for url, each in owners.items() if each}


def _provider_for(txn: Txn, root: str) -> int | None:
    owner = owner_of_site(txn, root)
    return None if owner is None else owner[2]


def owner_of_site(txn: Txn, root: str) -> OwnerRank | None:
    """The provider that :func:`find_or_make_watched` finds, to be compared with those of other databases: of several
    the least has the site; None: it finds none."""
    owner = _owner_of_site(_owners(txn, root), root)
    return None if owner is None else _rank(owner)


def left_provider(txn: Txn, root: str) -> int | None:
    """The provider that had this site here, and moved to another sub-LCC; None: there is none."""
    owner = _owner_of_site(_owners(txn, root, _OWNERS_THAT_LEFT), root)
    return None if owner is None else owner[2]


def _owner_of_site(owners: Iterable[_Owner], root: str) -> _Owner | None:
    """The first of these that has this site."""
    for owner in owners:
        own, watched, _ = owner
        if not watched or own.partition("://")[2] == root.partition("://")[2]:
            return owner
    return None


def keep_left_roots(txn: Txn, pid: int) -> None:
    """A provider leaves: its roots are remembered."""
    sql = "SELECT r.pid, r.position, r.root, p.watched FROM proots r JOIN pidb p ON p.pid = r.pid WHERE r.pid = ?"
    rows = txn.query(sql, [pid])
    if rows:  # else this was done before
        forget_left_roots(txn, pid)
        txn.insert("leftroots", ("pid", "position", "root", "watched"), rows)


def forget_left_roots(txn: Txn, pid: int) -> None:
    """A provider that had left is back, or is gone for good."""
    txn.execute("DELETE FROM leftroots WHERE pid = ?", [pid])


def _owner(row: tuple[str, int, int]) -> _Owner:
    root, watched, pid = row
    return root, bool(watched), pid


def _rank(owner: _Owner) -> OwnerRank:
    """The first one counts."""
    root, watched, pid = owner
    return -len(root.partition("://")[2]), watched, pid


def _owners(txn: Txn, url: str, select: str = _OWNERS) -> list[_Owner]:
    """Of each root that this URL begins with, in the order in which they count."""
    return sorted(map(_owner, _roots_that_begin(txn, _spellings(url), select)), key=_rank)


def _spellings(url: str) -> list[str]:
    """An http root admits https as well."""
    return [url, "http" + url[5:]] if url.startswith("https://") else [url]


def _roots_that_begin(txn: Txn, urls: Iterable[str], select: str = _OWNERS) -> list[tuple[str, int, int]]:
    """The rows of the roots that any of these URLs begins with."""
    spellings = list(urls)
    # One look-up in the index for each beginning, however many roots there are on the host.
    beginnings = {
        spelling[:end]
        for spelling in spellings
        for end in range(len(_host(spelling)), min(len(spelling), _INDEXED_CHARS) + 1)
    }
    found = txn.query_in(f"{select} IN ({{in}})", sorted(beginnings))
    for spelling in spellings:
        if len(spelling) > _INDEXED_CHARS:
            longer = [spelling[: _INDEXED_CHARS + 1], spelling, spelling]
            found += txn.query(f"{select} >= ? AND r.root <= ? AND SUBSTR(?, 1, LENGTH(r.root)) = r.root", longer)
    return [(root, watched, pid) for root, watched, pid in found]


def _host(url: str) -> str:
    """Scheme, host and port: what each of its roots begins with."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def roots_on(txn: Txn, site: str, limit: int) -> list[tuple[str, int]]:
    """The roots of providers on a host, by http and https, in the order in which they count for what lies in them:
    the longest first; of several of the same length registered ones first, the oldest first.

    :param site: ``scheme://host[:port]/``, normal.
    :returns: root and provider; at most so many.
    """
    sql = (
        "SELECT r.root, p.watched, p.pid FROM proots r JOIN pidb p ON p.pid = r.pid"
        " WHERE r.root >= ? AND r.root < ? AND p.removed = 0 ORDER BY r.root LIMIT ?"
    )
    found: list[tuple[str, int, int]] = []
    for spelling in sorted({site, _other_scheme(site)}):
        found += txn.query(sql, [*_of_host(spelling), limit])
    found.sort(key=lambda owner: (-len(owner[0].partition("://")[2]), owner[1], owner[2]))
    return [(root, pid) for root, _, pid in found]


def left_watcher(txn: Txn, roots: Iterable[str]) -> int | None:
    """A provider that watched one of these roots here, and moved to another sub-LCC."""
    spelled = {spelling for root in roots for spelling in (root, _other_scheme(root))}
    sql = "SELECT pid FROM leftroots WHERE watched = 1 AND root IN ({in})"
    return min((pid for (pid,) in txn.query_in(sql, sorted(spelled))), default=None)


def watch_again(txn: Txn, roots: Iterable[str]) -> None:
    """An operator says that these roots may have providers here, though those that they had have moved away."""
    for root in roots:
        while (pid := left_provider(txn, root) or left_watcher(txn, [root])) is not None:
            forget_left_roots(txn, pid)


def register_provider(txn: Txn, provider: Provider) -> int:
    """Register a provider: the one that watches its root keeps its id, and so its rows, and gets what stands here; if
    there is none, it is a new one.

    :param provider: with a password, without an id.
    :returns: its id.
    :raises SeveralWatched: its roots are watched by several providers.
    :raises SiteMoved: what watched its root is in another sub-LCC now.
    :raises lcc.storage.providers.providers.ProviderExists: no id is left.
    """
    watchers = {pid: root for root in provider.roots if (pid := watcher_of(txn, root)) is not None}
    left = None if watchers else left_watcher(txn, provider.roots)
    # Whoever gives another id has looked in all sub-LCCs, and found nobody who watches it.
    if left is not None and provider.pid in (0, left):
        raise SiteMoved(left)
    if len(watchers) > 1:
        each = ", ".join(f"{root} by provider {pid}" for pid, root in watchers.items())
        raise SeveralWatched(f"several of these roots are watched: {each}")
    for pid in watchers:
        watched = locked_provider(txn, pid)
        if watched is not None and watched.watched and not watched.removed:
            # An https root does not admit http: what was noticed there is its owner's as well.
            twins = [_other_scheme(root) for root in provider.roots if root.startswith("https://")]
            roots = (*provider.roots, *[root for root in twins if root in watched.roots])
            change_provider(txn, attrs.evolve(provider, pid=pid, roots=roots, former_roots=watched.former_roots))
            return pid
    return add_provider(txn, provider)
