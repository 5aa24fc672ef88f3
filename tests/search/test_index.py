"""The index: what queries find, in whose pages, and what a crash or damage leaves of it."""

from __future__ import annotations

import os
import re
import resource
import tempfile
from collections.abc import Iterator
from itertools import islice, permutations
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcc.roles.search.pages.results import narrowed
from lcc.search.checksums import damage
from lcc.search.index import FORMAT, HITS_MAX, SNIPPET_CHARS, IndexState, TextIndex
from lcc.search.interfaces import BadPlace, IndexDamaged
from lcc.search.query import parse_query
from lcc.search.values import IndexChange, RemovedPage, Results, Scopes
from tests.search.kit import NOW, indexed, replace


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TextIndex]:
    index = TextIndex(tmp_path / "index", 16 << 20)
    yield index
    index.close()


def fill(index: TextIndex, *changes: IndexChange, token: str = "t.1") -> None:
    index.add(changes)
    index.commit(attrs.evolve(index.state, token=token))


def search(
    index: TextIndex, text: str, scopes: Scopes = None, order: str = "", limit: int = 100, after: str = ""
) -> Results:
    return index.search(parse_query(text, order, NOW), scopes, limit, after)


def numbers(index: TextIndex, text: str, scopes: Scopes = None) -> list[int]:
    """The pages that a query finds."""
    return sorted(int(hit.key, 16) for hit in search(index, text, scopes).hits)


def some_pages(index: TextIndex) -> None:
    fill(
        index,
        indexed(1, "The quick brown fox searches.\nLine two", "Fox", language="en"),
        indexed(2, "A café in Zürich; the fox again, brown quick", "Café", site="b.example.org:8080", type="pdf"),
        indexed(3, "日本語のテキスト and e-mail", "", provider=2, site="other.example", language="ja"),
        indexed(4, "", "Nothing but a title", headings="Second heading", type="text", fault="pdftotext: broken"),
        indexed(5, "hidden fox", hidden=True),
        indexed(6, "", missing=True),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("fox", [1, 2]),
        ("FOX Quick", [1, 2]),
        ("fox zürich", [2]),
        ("zurich cafe", [2]),
        ('"quick brown"', [1]),
        ('"brown quick"', [2]),
        ("fox -zürich", [1]),
        ('fox -"quick brown"', [2]),
        ("title:fox", [1]),
        ("-title:fox fox", [2]),
        ("heading", [4]),
        ("title:heading", []),
        ("searches two", [1]),
        ("search", []),
        ("日本", [3]),
        ("本日", []),
        ("テキスト", [3]),
        ("e-mail", [3]),
        ('"e mail"', [3]),
        ("site:example.org", [1, 2, 4]),
        ("site:www.example.org", [1, 4]),
        ("site:b.example.org", [2]),
        ("site:b.example.org:8080 type:pdf", [2]),
        ("site:org -site:b.example.org", [1, 4]),
        ("site:ample.org", []),
        ("type:text", [4]),
        ("lang:ja", [3]),
        ("type:html -lang:ja", [1]),
        ("since:1970", [1, 2, 3, 4]),
        ("fox -fox", []),
        ("ᚠ" * 80, []),
        ("hidden", []),
        ("x" * 999, []),
    ],
)
def test_what_queries_find(index: TextIndex, text: str, found: list[int]) -> None:
    some_pages(index)
    assert numbers(index, text) == found
    assert search(index, text).total == len(found)


def test_what_a_hit_tells(index: TextIndex) -> None:
    some_pages(index)
    (hit,) = search(index, "cafe").hits
    assert (hit.url, hit.title, hit.type, hit.site) == (
        "http://b.example.org:8080/2",
        "Café",
        "pdf",
        "b.example.org:8080",
    )
    assert (hit.date, hit.provider, hit.browsable, hit.key) == (NOW + 2, 1, True, f"{2:040x}")
    assert [piece for piece, marked in hit.snippet.pieces() if marked] == ["café"]
    assert "".join(piece for piece, _ in hit.snippet.pieces()) == hit.snippet.text
    assert index.counts == (4, 1, 1, 1) and index.missing(10) == {f"{6:040x}": 7}
    fill(index, indexed(9, f"{'before ' * 99}middle {'behind ' * 99}", "Cut"), indexed(8, "(whole middle 日本)."))
    cuts = {hit.title: hit.snippet[2:] for hit in search(index, "middle").hits}
    assert cuts == {"Cut": (True, True), "": (False, False)}


def test_the_text_of_a_page_as_of_a_change(index: TextIndex) -> None:
    fill(index, indexed(8, "whole middle 日本"), indexed(7, "", hidden=True))
    assert index.text(f"{8:040x}", 9) == "whole middle 日本"
    assert index.text(f"{8:040x}", 8) == index.text(f"{7:040x}", 8) == index.text(f"{1:040x}", 2) == ""


@pytest.mark.parametrize(
    ("text", "query", "snippet", "marked"),
    [
        ("日本語のテキスト", "日本", "日本語のテキスト", ["日本"]),
        ("日本語", '"日本 語"', "日本語", ["日本語"]),
        ("Unix日本v7", "日本", "Unix日本v7", ["日本"]),
        ("Unix日本v7", "unix日本v7", "Unix日本v7", ["Unix日本v7"]),
        ("กา\u200bขี", "ขี", "กา\u200bขี", ["ขี"]),
        ("ñ日 ñ", "日", "ñ日 ñ", ["日"]),
        ("日 本", "日本", "日 本", ["日", "本"]),
    ],
)
def test_scripts_without_spaces(index: TextIndex, text: str, query: str, snippet: str, marked: list[str]) -> None:
    fill(index, indexed(1, text, "日本"))
    (hit,) = search(index, query).hits
    assert (hit.title, hit.snippet.text) == ("日本", snippet)
    assert [piece for piece, is_marked in hit.snippet.pieces() if is_marked] == marked
    assert numbers(index, "本日") == []


def test_hostile_markup_is_plain_text_and_marks_are_where_the_words_are(index: TextIndex) -> None:
    hostile = '</b><script>alert(1)</script> &amp; \u202e öö \U0001f98a fox "onload=x'
    fill(index, indexed(1, f"{'far away ' * 100}{hostile} {'behind ' * 100}", f"<img src=x> {hostile}"))
    (hit,) = search(index, "fox -nothing").hits
    assert [piece for piece, marked in hit.snippet.pieces() if marked] == ["fox"]
    assert hit.title == f"<img src=x> {hostile}" and len(hit.snippet.text) <= SNIPPET_CHARS * 2


def test_ranks_dates_and_places(index: TextIndex) -> None:
    fill(
        index,
        *(indexed(number, f"common {'word ' * number}") for number in range(1, 6)),
        indexed(6, "common", title="word"),
    )
    assert search(index, "word").hits[0].key == f"{6:040x}"  # what a title says counts more
    by_date = search(index, "common", order="date", limit=4)
    assert [int(hit.key, 16) for hit in by_date.hits] == [6, 5, 4, 3] and by_date.next == "4"
    rest = search(index, "common", order="date", limit=4, after=by_date.next)
    assert [int(hit.key, 16) for hit in rest.hits] == [2, 1] and rest.next == "" and rest.total == 6
    for after in ("x", "-1", str(HITS_MAX + 1), "9" * 100):
        with pytest.raises(BadPlace):
            search(index, "common", after=after)
    assert search(index, "common", after=str(HITS_MAX)).hits == ()


def test_facets(index: TextIndex) -> None:
    some_pages(index)
    found = search(index, "since:1970")
    assert [*found.sites] == [("www.example.org", 2), ("b.example.org:8080", 1), ("other.example", 1)]
    assert dict(found.types) == {"html": 2, "pdf": 1, "text": 1}
    assert search(index, "since:1970", limit=1, after="1").sites == ()


SITES = (
    "example.org",
    "www.example.org",
    "example.org:80",  # of https
    "example.org:443",  # of http
    "example.org:8080",
    "[2001:db8::1]",
    "[2001:db8::1]:80",
    "192.0.2.1",
    "192.0.2.1:8080",
    "xn--mller-kva.example",
    "xn--mller-kva.example:8080",
)


def test_who_follows_a_facet_finds_as_many_as_it_says(index: TextIndex) -> None:
    pages = [(site, type_) for count, site in enumerate(SITES[-10:], 1) for type_ in ("html", "pdf") * count]
    fill(index, *(indexed(number, "word", site=site, type=kind) for number, (site, kind) in enumerate(pages)))
    fill(index, *(indexed(1000 + at, f"unusual {site}", site=site) for at, site in enumerate(SITES)))
    for asked in ("word", "type:pdf"):
        found = search(index, asked)
        assert len(found.sites) == 10
        for prefix, facets in (("host", found.sites), ("type", found.types)):
            for facet in facets:
                assert search(index, narrowed(asked, prefix, facet)).total == facet.count, facet
    for site in SITES:
        assert search(index, f"unusual host:{site}").total == 1
    assert search(index, "unusual host:müller.example").total == 1
    assert search(index, "unusual host:MÜLLER.example:8080").hits[0].site == "xn--mller-kva.example:8080"
    assert search(index, "unusual site:example.org").total == 5


def test_what_is_out_of_scope_is_in_nothing_that_is_told(index: TextIndex) -> None:
    fill(
        index,
        indexed(1, "public words", provider=1),
        indexed(2, "secret plans", "Secret", provider=2, site="secret.example", type="pdf"),
    )
    for text in (
        "secret",
        "title:secret",
        "site:secret.example",
        "type:pdf",
        "secert",
        "plans public",
        "-public plans",
    ):
        found = search(index, text, frozenset({1}))
        assert found == Results((), 0), text
    everything = search(index, "since:1970", frozenset({1}))
    assert (everything.total, everything.sites) == (1, (("www.example.org", 1),))
    assert search(index, "secert", frozenset({2})).suggestion == "secret"
    assert search(index, "since:1970", frozenset()).total == 0


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("serach", "search"),
        ("Serach engine", "search engine"),
        ("engine -x serach title:whatever", ""),
        ("title:egnines", "title:engines"),
        ("zurihc", "zurich"),
        ('"serach engine"', ""),
        ("xyzzyx", ""),
        ("se", ""),
        ("engien2", ""),
        ("search", ""),
    ],
)
def test_suggestions(index: TextIndex, text: str, suggestion: str) -> None:
    fill(index, *(indexed(number, "a search engine in Zürich", "Engines") for number in range(20)))
    assert search(index, text).suggestion == suggestion


def test_suggestions_stand_where_the_word_was(index: TextIndex) -> None:
    fill(index, *(indexed(number, "title words search") for number in range(10)))
    assert search(index, "title:wrods words titel").suggestion == ""
    assert search(index, 'serahc:"-" search').suggestion == "search search"
    assert search(index, "-serahcx serahc words").suggestion == "-serahcx search words"


def test_suggestions_take_no_more_than_their_time(index: TextIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("".join(each) for each in permutations("abcdefgh"))
    fill(index, *(indexed(number, " ".join(islice(words, 300))) for number in range(20)))
    asked = []

    def clock() -> float:
        asked.append(1)
        return len(asked) / 1000

    monkeypatch.setattr("lcc.search.index.thread_time", clock)
    search(index, "abcdefgx abcdexgh abxdefgh axcdefgh")
    assert len(asked) < 30


def test_scores_tell_nothing_of_pages_out_of_scope(index: TextIndex) -> None:
    fill(index, indexed(1, "common words"), indexed(2, "common"))
    before = [hit.score for hit in search(index, "common", frozenset({1})).hits]
    assert before[0] == 1.0 > before[1] > 0.0
    fill(index, *(indexed(number, "common", provider=2) for number in range(3, 50)))
    found = search(index, "common", frozenset({1}), limit=1)
    assert found.hits[0].score == 1.0
    (behind,) = search(index, "common", frozenset({1}), after=found.next).hits
    assert 0.0 < behind.score < 1.0


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Zu\u00adsammen", "zusammen"),
        ("zusammen", "Zu\u00adsammen"),
        ("İstanbul", "istanbul"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645"),
        ("ab\u200e\u200dcd", "abcd"),
    ],
)
def test_words_that_people_see_as_one(index: TextIndex, text: str, query: str) -> None:
    fill(index, indexed(1, f"{text} 👩\u200d💻 word", text))
    assert numbers(index, query) == numbers(index, f"title:{query}") == [1]
    (hit,) = search(index, query).hits
    assert hit.title == text and "👩\u200d💻" in hit.snippet.text and hit.snippet.marks


def test_a_page_is_replaced_and_removed(index: TextIndex) -> None:
    fill(index, indexed(1, "first"), indexed(2, "first"))
    fill(index, indexed(1, "second"), indexed(1, "third"), RemovedPage(f"{2:040x}"), RemovedPage("none"), token="t.2")
    assert numbers(index, "first") == numbers(index, "second") == [] and numbers(index, "third") == [1]
    assert index.state.token == "t.2" and [*index.versions("")] == [(f"{1:040x}", 2)]


def test_the_index_is_opened_anew_in_time(index: TextIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tantivy's directory never forgets a path."""
    monkeypatch.setattr("lcc.search.index.COMMITS", 3)
    opened = [index._index]
    for number in range(1, 10):
        fill(index, indexed(number, "fox"), token=f"t.{number}")
        if index._index is not opened[-1]:
            opened.append(index._index)
        assert numbers(index, "fox") == list(range(1, number + 1))
        assert index.state.token == f"t.{number}"
    assert len(opened) == 4
    fill(index, RemovedPage(f"{1:040x}"), token="t.10")
    assert numbers(index, "fox") == list(range(2, 10))


def test_what_is_not_committed_is_lost_with_its_token(index: TextIndex) -> None:
    fill(index, indexed(1, "old"), token="t.1")
    index.add([indexed(1, "new"), indexed(2, "new")])
    assert numbers(index, "old") == [1]
    index.close()
    again = TextIndex(index.folder)
    assert again.state.token == "t.1" and numbers(again, "old") == [1] and numbers(again, "new") == []
    again.close()


def test_pages_that_do_not_come_again_are_removed_when_all_have_come(index: TextIndex) -> None:
    fill(index, indexed(1, "words"), indexed(2, "words"), token="t.9")
    index.commit(IndexState("", index.state.generation + 1))
    assert numbers(index, "words") == [1, 2]
    index.add([indexed(2, "words")])
    index.commit(attrs.evolve(index.state, token="u.1", complete=True))
    assert numbers(index, "words") == [2] and index.state == IndexState("u.1", 2, True)


def test_files_that_are_being_written_are_no_damage(index: TextIndex) -> None:
    fill(index, indexed(1, "first"), indexed(2, "second"), token="t.1")
    fill(index, RemovedPage(f"{1:040x}"), token="t.2")
    (segment,) = {name.name.partition(".")[0] for name in index.folder.glob("*.del")}
    for name in (f"{'0' * 32}.fieldnorm", f"{segment}.999999.del"):
        (index.folder / name).write_bytes(b"half of ")
        assert damage(index.folder) == ""
    (written,) = index.folder.glob(f"{segment}.[0-8]*.del")
    replace(written, written.read_bytes()[:-1])
    assert damage(index.folder) == f"{written.name} is damaged"


def test_damage_is_found(index: TextIndex) -> None:
    some_pages(index)
    assert damage(index.folder) == ""
    index.close()
    for pattern, broken in (("*.term", "is damaged"), ("*.store", "is damaged"), ("*.pos", "is damaged")):
        (file,) = index.folder.glob(pattern)
        whole = file.read_bytes()
        replace(file, whole[:3] + bytes([whole[3] ^ 1]) + whole[4:])
        assert broken in damage(index.folder)
        replace(file, whole[:-9])
        assert broken in damage(index.folder)
        with pytest.raises(IndexDamaged):
            TextIndex(index.folder)
        replace(file, whole)
    assert numbers(TextIndex(index.folder), "fox") == [1, 2]
    (index.folder / "meta.json").write_text('{"schema": []}')
    with pytest.raises(IndexDamaged):
        TextIndex(index.folder)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError('IoError { io_error: Os { code: 24, kind: Uncategorized, message: "Too many" } }'), OSError),
        (ValueError("Failed to open file: Permission denied (os error 13)"), OSError),
        (PermissionError(13, "Permission denied"), OSError),
        (ValueError('Os { code: 2, kind: NotFound, message: "No such file" }'), IndexDamaged),
        (FileNotFoundError(2, "No such file"), IndexDamaged),
        (ValueError("Data corrupted"), IndexDamaged),
        (KeyError("a fault of ours"), KeyError),
    ],
)
def test_what_the_system_refuses_is_no_damage(
    index: TextIndex, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(index, "_search", fails)
    with pytest.raises(raised):
        search(index, "words")


def test_too_many_open_files_leave_the_index(index: TextIndex) -> None:
    fill(index, indexed(1, "words"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    opened: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:  # those below that are free
                opened.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(OSError, match="cannot be read now"):
            TextIndex(index.folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in opened:
            os.close(each)
    assert numbers(TextIndex(index.folder), "words") == [1]


def test_an_index_of_another_version(index: TextIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    some_pages(index)
    index.close()
    monkeypatch.setattr("lcc.search.index.FORMAT", FORMAT + 1)
    with pytest.raises(IndexDamaged, match="of another version"):
        TextIndex(index.folder)


def test_one_process_writes_at_a_time(index: TextIndex) -> None:
    fill(index, indexed(1, "words"))
    other = TextIndex(index.folder)
    assert numbers(other, "words") == [1]
    with pytest.raises(OSError, match="cannot write the index"):
        other.add([indexed(2, "words")])
    fill(index, indexed(2, "words"))
    other.reload()
    assert numbers(other, "words") == [1, 2]


WORD = st.text("aäbcß日1", min_size=1, max_size=3)
TEXT = st.lists(WORD, max_size=8).map(" ".join)


@settings(max_examples=30)
@given(st.lists(TEXT, min_size=1, max_size=6), WORD)
def test_each_word_is_found_as_often_as_it_is_there(texts: list[str], word: str) -> None:
    def words_of(text: str) -> list[str]:
        folded = text.lower().replace("ä", "a").replace("ß", "ss")
        return re.findall("日|[^日 ]+", folded)

    with tempfile.TemporaryDirectory() as folder:
        index = TextIndex(Path(folder) / "index", 16 << 20)
        fill(index, *(indexed(number, text) for number, text in enumerate(texts)))
        wanted = words_of(word)
        expected = [
            number
            for number, text in enumerate(texts)
            if any(words_of(text)[at : at + len(wanted)] == wanted for at in range(len(text) + 1))
        ]
        assert numbers(index, word) == expected
        index.close()
