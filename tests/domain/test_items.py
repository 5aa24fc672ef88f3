"""Which items of a feed are the same, and which are news."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.tasks.items import FLAPS_MAX, ItemRules, _names, choose_policy, digest_of, identify
from lcc.model.feeds import Body, Category, Enclosure, FeedItem, Person, Place
from lcc.model.items import ItemRow, Judged, KnownItem, News, link_hash


def rows(items: list[FeedItem], policy: str) -> list[ItemRow]:
    return [
        ItemRow(identity, digest, link_hash(item.link), None, "", item.title)
        for identity, digest, item in identify(items, policy)
    ]


class Feed:
    """Stores what is judged, as the database does."""

    def __init__(self, *items: FeedItem) -> None:
        self.policy = choose_policy(items)
        self.known: dict[bytes, KnownItem] = {}
        self.poll(*items)

    def poll(self, *items: FeedItem) -> dict[str, str]:
        """Title -> what the item is."""
        found = rows(list(items), self.policy)
        named = {row.identity: self.known[row.identity] for row in found if row.identity in self.known}
        links = ItemRules().unknown_links(found, named)
        judged = ItemRules().judge(found, named, [each for each in self.known.values() if each.link in links])
        for each in judged:
            self._store(each)
        return {each.row.record: each.news.value for each in judged}

    def _store(self, judged: Judged) -> None:
        if judged.known is not None:
            del self.known[judged.known.identity]
        row, known = judged.row, judged.known
        if known is None:
            self.known[row.identity] = KnownItem(row.identity, row.digest, row.link, b"", 0)
        elif judged.news is News.CHANGED:
            self.known[row.identity] = KnownItem(row.identity, row.digest, row.link, known.digest, judged.flaps)
        else:
            self.known[row.identity] = known._replace(identity=row.identity, link=row.link)


def item(number: int, **others: object) -> FeedItem:
    found = FeedItem(id=f"id{number}", link=f"http://a/{number}", title=f"t{number}", summary=Body(f"s{number}"))
    return attrs.evolve(found, **others)  # type: ignore[arg-type]


def test_the_policy_is_the_best_that_tells_items_apart() -> None:
    assert choose_policy([]) == ""
    assert choose_policy([item(1), item(2)]) == "id"
    assert choose_policy([item(1, id="x"), item(2, id="x")]) == "link"
    assert choose_policy([item(1, id=""), item(2, id="")]) == "link"
    assert choose_policy([item(1, id="", link=""), item(2, id="", link="")]) == "hash"
    # Comments on one page.
    assert choose_policy([item(1, link="http://a/"), item(2, link="http://a/")]) == "id"


def test_what_is_news() -> None:
    feed = Feed(item(1), item(2))
    assert feed.poll(item(3), item(2, summary=Body("other")), item(1)) == {
        "t3": "new",
        "t2": "changed",
        "t1": "unchanged",
    }


def test_dates_and_white_space_are_no_news() -> None:
    feed = Feed(item(1))
    assert feed.poll(item(1, published=7, updated=8, summary=Body(" s1\n"))) == {"t1": "unchanged"}


def test_ids_that_change_while_links_stay() -> None:
    feed = Feed(*(item(n) for n in range(5)))
    assert set(feed.poll(*(item(n, id=f"other{n}") for n in range(5))).values()) == {"unchanged"}
    assert feed.poll(*(item(n, id=f"third{n}") for n in range(6)))["t5"] == "new"
    assert len(feed.known) == 6


def test_links_that_change_while_ids_stay() -> None:
    feed = Feed(item(1))
    assert feed.poll(item(1, link="http://b/1")) == {"t1": "changed"}
    assert len(feed.known) == 1


def test_ids_that_are_added_later_make_nothing_new() -> None:
    feed = Feed(item(1, id=""), item(2, id=""))
    assert feed.policy == "link"
    assert set(feed.poll(item(1), item(2)).values()) == {"unchanged"}


def test_items_without_ids_or_links() -> None:
    feed = Feed(item(1, id="", link=""), item(2, id="", link=""))
    assert set(feed.poll(item(2, id="", link=""), item(1, id="", link="")).values()) == {"unchanged"}
    # A title stays while its text is corrected.
    assert feed.poll(item(1, id="", link="", summary=Body("corrected"))) == {"t1": "changed"}
    # One of them in a feed that has ids.
    feed = Feed(item(1), item(2), item(3, id="", link=""))
    assert feed.policy == "id"
    assert set(feed.poll(item(3, id="", link=""), item(1)).values()) == {"unchanged"}


def test_repeated_ids() -> None:
    feed = Feed(item(1), item(2), item(3))
    same = [item(4, id="x"), item(5, id="x")]
    assert set(feed.poll(*same).values()) == {"new"}
    assert set(feed.poll(*reversed(same)).values()) == {"unchanged"}
    # One of them goes.
    assert feed.poll(same[0]) == {"t4": "unchanged"}
    # Equal in all: one.
    assert len(rows([item(1), item(1)], "id")) == 1
    # Equal ids and links, different texts.
    assert len(rows([item(1), item(1, title="other")], "id")) == 2


def test_comments_share_a_link_and_are_not_mixed_up() -> None:
    feed = Feed(*(item(n, link="http://a/") for n in range(3)))
    assert feed.poll(*(item(n, link="http://a/") for n in range(3, 6))) == {"t3": "new", "t4": "new", "t5": "new"}


def test_an_item_that_comes_back_is_not_new() -> None:
    feed = Feed(item(1), item(2))
    feed.poll(item(2))
    assert feed.poll(item(1)) == {"t1": "unchanged"}


def test_an_item_that_flaps_is_news_for_a_few_times() -> None:
    versions = [item(1), item(1, summary=Body("advertisement"))]
    feed = Feed(versions[0])
    found = [feed.poll(versions[n % 2])["t1"] for n in range(1, 20)]
    assert found.count("changed") == FLAPS_MAX + 1
    assert set(found[FLAPS_MAX + 2 :]) == {"unchanged"}
    # A third version is news again.
    assert feed.poll(item(1, summary=Body("really new"))) == {"t1": "changed"}


ITEMS = st.lists(
    st.builds(
        FeedItem,
        id=st.sampled_from(["", "a", "b", "c"]),
        link=st.sampled_from(["", "http://a/", "http://b/"]),
        title=st.sampled_from(["", "x", "y"]),
        summary=st.sampled_from([Body(), Body("p"), Body("q")]),
    ),
    max_size=8,
)


@given(ITEMS, st.sampled_from(["id", "link", "hash"]))
def test_identities_are_distinct_and_do_not_depend_on_the_order(items: list[FeedItem], policy: str) -> None:
    found = identify(items, policy)
    assert len({identity for identity, _, _ in found}) == len(found)
    again = identify(list(reversed(items)), policy)
    assert {each[:2] for each in again} == {each[:2] for each in found}


@given(ITEMS)
def test_the_same_document_again_is_no_news(items: list[FeedItem]) -> None:
    feed = Feed(*items)
    if items:
        assert "new" not in feed.poll(*items).values()
        assert set(feed.poll(*items).values()) <= {"unchanged"}


def test_white_space_and_dates_are_no_news_but_what_is_read_is() -> None:
    item = FeedItem(title="t", content=Body("a b"), summary=Body("s"), published=1)
    same = attrs.evolve(item, content=Body(" a\n\tb "), published=2, summary=Body("other"))
    assert digest_of(item) == digest_of(same)
    assert digest_of(item) != digest_of(attrs.evolve(item, content=Body("ab")))
    alone = FeedItem(title="t", summary=Body("s"))
    assert digest_of(alone) != digest_of(attrs.evolve(alone, summary=Body("r")))


def test_items_that_share_an_id_are_told_apart_by_link_then_by_text() -> None:
    def item(link: str, title: str) -> FeedItem:
        return FeedItem(id="x", link=link, title=title)

    one, other, third = item("l", "a"), item("m", "a"), item("l", "b")
    alone = {identity for identity, _, _ in identify([one], "id")}
    apart = [identity for identity, _, _ in identify([one, other], "id")]
    by_text = [identity for identity, _, _ in identify([one, third, other, one], "id")]
    assert len({*alone, *apart, *by_text}) == 5 and len(by_text) == 3
    # Whatever stands beside it with another link: its own is enough.
    assert by_text[2] == apart[1]


def test_an_item_without_id_and_link_is_known_by_its_title_and_enclosures_or_its_text() -> None:
    titled = FeedItem(title="t", content=Body("a"))
    assert _identity(titled) == _identity(attrs.evolve(titled, content=Body("b")))
    sound = attrs.evolve(titled, enclosures=(Enclosure("http://h/1.mp3"),))
    assert _identity(sound) != _identity(titled)
    bare = FeedItem(content=Body("a"), summary=Body("s"), enclosures=())
    assert _identity(bare) == _identity(attrs.evolve(bare, summary=Body("r")))
    assert _identity(bare) != _identity(attrs.evolve(bare, content=Body("b")))
    short = FeedItem(summary=Body("s"))
    assert _identity(short) != _identity(FeedItem(summary=Body("r")))


def _identity(item: FeedItem) -> bytes:
    ((identity, _, _),) = identify([item], "hash")
    return identity


def test_links_are_asked_for_where_an_identity_is_unknown() -> None:
    found = rows([FeedItem(id="a", link="l"), FeedItem(id="b", link="m"), FeedItem(id="c")], "id")
    known = {found[0].identity: KnownItem(found[0].identity, found[0].digest, found[0].link, b"", 0)}
    assert ItemRules().unknown_links(found, known) == [found[1].link]
    # A known item with the same link does not make an unknown one ambiguous.
    same_link = rows([FeedItem(id="a", link="l"), FeedItem(id="new", link="l")], "id")
    gone = KnownItem(b"gone", same_link[1].digest, same_link[1].link, b"", 0)
    judged = ItemRules().judge(same_link, known, [gone])
    assert [each.known is not None for each in judged] == [True, True] and judged[1].known == gone


def test_identities_and_digests_are_those_that_databases_have() -> None:
    """Another spelling of them would make everything news."""
    told = FeedItem(
        id="1",
        link="http://site.example/1",
        title="One",
        content=Body("some\n  text"),
        authors=(Person("A. Writer", "a@site.example"),),
        categories=(Category("news"),),
        enclosures=(Enclosure("http://site.example/1.mp3"),),
        places=(Place("Point", (1.5, 2.0)),),
    )
    twin = attrs.evolve(told, link="http://site.example/2")
    changed = attrs.evolve(twin, title="Two")
    assert [(identity.hex(), digest.hex()) for identity, digest, _ in identify([told, twin, changed], "id")] == [
        ("9b4d1d7de9e7e68120b1056499ab7bcc", "370d292c6859fb810cfc8a1a1427eac8"),
        ("a8bc5ae00f991c31f6254c041bdef1b0", "79253032ba5ecde11d98869a4d5047ae"),
        ("44a2b8d04ec096861a1404f607348d06", "9d59f5a6c01ad90377e2d765d9967da9"),
    ]
    assert [identity.hex() for policy in ("id", "link", "hash") for identity, *_ in identify([told], policy)] == [
        "370163db3b3bf221aa5de8f772d855bb",
        "d5845c42c095bf971013faa0be89383e",
        "891a20adf331fc6ee097eb79a8c5cb26",
    ]
    poor = [FeedItem(id="1", title="One"), FeedItem(id="1", title="Two"), FeedItem(id="2"), FeedItem()]
    poor.append(FeedItem(id="2", categories=(Category("x"),)))
    assert [identity.hex() for identity, *_ in identify(poor, "id")] == [
        "67ecdb707bd5cf90409cd3219271e67a",
        "0da21f9ce7c394b736fc509dbdc95393",
        "0da2d2a506dac60d98972825a45f215b",
        "fcdf3ecfe876539956eb77f17f503ac1",
        "3e6313c3f9e326296caa5721fedd4e01",
    ]


def test_white_space_is_no_title() -> None:
    assert _identity(FeedItem(title=" ", content=Body("a"))) != _identity(FeedItem(title=" ", content=Body("b")))


def test_an_item_is_known_by_its_link_only_where_that_is_unmistakable() -> None:
    bare, one, two = rows([FeedItem(id="a"), FeedItem(id="b", link="l"), FeedItem(id="c", link="l")], "id")
    known = KnownItem(b"gone", b"digest", one.link, b"", 2)
    assert [each.known for each in ItemRules().judge([one], {}, [known])] == [known]
    assert [each.known for each in ItemRules().judge([one, two], {}, [known])] == [None, None]
    assert [each.known for each in ItemRules().judge([bare], {}, [known._replace(link=bare.link)])] == [None]


def test_how_often_an_item_went_back_is_counted() -> None:
    (row,) = rows([FeedItem(id="a", title="t")], "id")
    other = KnownItem(row.identity, b"other", row.link, b"", 2)
    rules = ItemRules()
    for known, news, flaps in (
        (None, News.NEW, 0),
        (other._replace(digest=row.digest), News.UNCHANGED, 2),
        (other, News.CHANGED, 0),
        (other._replace(before=row.digest), News.CHANGED, 3),
        (other._replace(before=row.digest, flaps=3), News.UNCHANGED, 3),
    ):
        stored = {} if known is None else {row.identity: known}
        assert rules.judge([row], stored, []) == [Judged(row, news, known, flaps)]


def test_what_an_item_lacks_is_empty_among_its_names() -> None:
    assert _names(FeedItem(id="1"), "id") == ("id:1", "")
    assert _names(FeedItem(), "id") == ("", "")
