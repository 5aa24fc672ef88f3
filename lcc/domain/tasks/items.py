"""Which items of a feed are the same, and which are news: pure rules.

An item is known by its id, else its link, else a hash of it.  Which of these is the first choice is decided once for
a feed, by its first document that has items, and kept: a feed whose publisher adds ids later would else be all new.

- An item without what the feed goes by is known by the next.
- Items of a document that share an id are told apart by their links, then by their text.  Items that are equal in all
  of these are one.
- An item whose identity is unknown, but whose link is that of one known item which the document does not name any
  more, is that one: its id has changed.
- Dates are no news: many a feed gives all its items the date of the request.
- An item that alternates between two versions (several servers behind one name, advertisements) is news for a few
  times, and then no longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from zope.interface import implementer

from lcc.interfaces import IItemRules
from lcc.model.feeds import FeedItem
from lcc.model.items import IDENTITY_BYTES, ItemRow, Judged, KnownItem, News, hashed

FLAPS_MAX = 3
"""How often a return to the version before is news."""


def choose_policy(items: Sequence[FeedItem]) -> str:
    """By what the items of this feed are known, one of :data:`lcc.model.feeds.POLICIES`; empty: it has no items."""
    if not items:
        return ""
    ids = len({item.id for item in items} - {""})
    links = len({item.link for item in items} - {""})
    if ids and ids >= links:
        return "id"
    return "link" if links else "hash"


def digest_of(item: FeedItem) -> bytes:
    """A hash of what is news when it changes."""
    body = item.content.value or item.summary.value
    return hashed(
        IDENTITY_BYTES,
        item.title,
        item.link,
        " ".join(body.split()),
        *(part for each in item.authors for part in each),
        *(part for each in item.categories for part in each),
        *(each.url for each in item.enclosures),
        *(repr(each) for each in item.places),
    )


def identify(items: Iterable[FeedItem], policy: str) -> list[tuple[bytes, bytes, FeedItem]]:
    """Identity, digest and item of each; of equal ones only the first.

    :param policy: one of :data:`lcc.model.feeds.POLICIES`.
    """
    named = ((_names(item, policy), digest_of(item), item) for item in items)
    each = {(names, digest): (names, digest, item) for names, digest, item in named}.values()
    firsts = Counter(names[0] for names, _, _ in each)
    pairs = Counter(names for names, _, _ in each)
    found = []
    for names, digest, item in each:
        if firsts[names[0]] == 1:
            identity = hashed(IDENTITY_BYTES, names[0])
        elif pairs[names] == 1:
            identity = hashed(IDENTITY_BYTES, *names)
        else:
            identity = hashed(IDENTITY_BYTES, *names, digest.hex())
        found.append((identity, digest, item))
    return found


def _names(item: FeedItem, policy: str) -> tuple[str, str]:
    """The first two of id, link and hash that it has, in the order of the policy."""
    own = "\n".join([item.title, *(each.url for each in item.enclosures)])
    hashed = own if own.strip() else item.content.value or item.summary.value
    names = {"id": item.id, "link": item.link, "hash": hashed}
    order = {"id": ("id", "link", "hash"), "link": ("link", "id", "hash"), "hash": ("hash", "id", "link")}[policy]
    first, second, *_ = *(f"{kind}:{names[kind]}" for kind in order if names[kind]), "", ""
    return first, second


@implementer(IItemRules)
class ItemRules:
    """For the store (:class:`lcc.interfaces.IItemRules`)."""

    def unknown_links(self, rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem]) -> list[bytes]:
        """The links by which rows without a known identity may be known."""
        return list({row.link for row in rows if row.link and row.identity not in known})

    def judge(
        self, rows: Sequence[ItemRow], known: Mapping[bytes, KnownItem], linked: Iterable[KnownItem]
    ) -> list[Judged]:
        """What each item of a document is."""
        named = {row.identity for row in rows}
        by_link: dict[bytes, list[KnownItem]] = {}
        for each in linked:
            if each.identity not in named:
                by_link.setdefault(each.link, []).append(each)
        asking = Counter(row.link for row in rows if row.identity not in known)
        return [_judge_one(row, known.get(row.identity) or _by_link(row, by_link, asking)) for row in rows]


def _by_link(row: ItemRow, by_link: Mapping[bytes, list[KnownItem]], asking: Mapping[bytes, int]) -> KnownItem | None:
    """Only where it is unmistakable: a feed of comments has many items with one link."""
    candidates = by_link.get(row.link, [])
    return candidates[0] if row.link and len(candidates) == 1 and asking[row.link] == 1 else None


def _judge_one(row: ItemRow, known: KnownItem | None) -> Judged:
    if known is None:
        return Judged(row, News.NEW, None, 0)
    if known.digest == row.digest:
        return Judged(row, News.UNCHANGED, known, known.flaps)
    if known.before != row.digest:
        return Judged(row, News.CHANGED, known, 0)
    if known.flaps >= FLAPS_MAX:
        return Judged(row, News.UNCHANGED, known, known.flaps)
    return Judged(row, News.CHANGED, known, known.flaps + 1)
