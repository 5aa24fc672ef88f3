"""What words are taken for the same, script by script; what is shown is the text as it came."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.search.folding import Places, fold
from lcc.search.index import IndexState, TextIndex
from lcc.search.query import parse_query
from lcc.search.schema import word_analyzer
from tests.search.kit import indexed

SAME = (
    ("\u0391\u03b8\u03ae\u03bd\u03b1", "\u03b1\u03b8\u03b7\u03bd\u03b1"),  # Athens: tonos
    ("\u1f08\u03b8\u1fc6\u03bd\u03b1\u03b9", "\u03b1\u03b8\u03b7\u03bd\u03b1\u03b9"),  # breathing, circumflex
    ("\u03bb\u03cc\u03b3\u03bf\u03c2", "\u039b\u039f\u0393\u039f\u03a3"),  # a final sigma
    ("\u03c0\u03c1\u03bf\u03ca\u03cc\u03bd", "\u03c0\u03c1\u03bf\u03b9\u03bf\u03bd"),  # diaeresis
    ("\u0451\u043b\u043a\u0430", "\u0435\u043b\u043a\u0430"),  # yo
    ("\u0437\u0430\u0301\u043c\u043e\u043a", "\u0437\u0430\u043c\u043e\u043a"),  # a mark of stress
    ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),  # niqqud
    ("\u0643\u0650\u062a\u064e\u0627\u0628\u064c", "\u0643\u062a\u0627\u0628"),  # harakat
    ("\u0643\u062a\u0640\u0640\u0627\u0628", "\u0643\u062a\u0627\u0628"),  # stretched
    ("\u0623\u062d\u0645\u062f", "\u0627\u062d\u0645\u062f"),  # hamza
    ("Vi\u1ec7t x\u0304y", "viet xy"),
)
OTHERS = (
    ("\u0439\u043e\u0434", "\u0438\u043e\u0434"),  # short i
    ("\u0457\u0436\u0430", "\u0456\u0436\u0430"),  # yi of Ukrainian
    ("\u045e", "\u0443"),  # short u of Belarusian
    ("\u0453", "\u0433"),  # gje of Macedonian
    ("\u0915\u093f", "\u0915"),  # a vowel of Devanagari
    ("\u0e01\u0e34", "\u0e01\u0e35"),  # vowels of Thai
)


def words(text: str) -> list[str]:
    found: list[str] = word_analyzer().analyze(fold(unicodedata.normalize("NFC", text)))
    return found


@pytest.mark.parametrize(("one", "other"), SAME)
def test_words_that_are_the_same(one: str, other: str) -> None:
    assert words(one) == words(other) != []


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_words_that_are_not(one: str, other: str) -> None:
    assert words(one) != words(other)


@pytest.mark.parametrize(("text", "query"), SAME)
def test_what_is_asked_without_marks_is_found_and_shown_with_them(tmp_path: Path, text: str, query: str) -> None:
    text = unicodedata.normalize("NFC", text)
    index = TextIndex(tmp_path / "index", 16 << 20)
    index.add([indexed(1, f"\u0964 before \u200e{text} behin\u200dd", f"title {text}")])
    index.commit(IndexState("t.1"))
    for asked in (query, f"title:{query}", text):
        assert index.search(parse_query(asked, "", 0), None, 1).total == 1, asked
    (hit,) = index.search(parse_query(f'"{query}"', "", 0), None, 1).hits
    assert hit.snippet.text == f"\u0964 before \u200e{text} behin\u200dd"
    assert [piece for piece, marked in hit.snippet.pieces() if marked] == text.split()
    index.close()


scripts = st.text(
    st.one_of(
        st.characters(min_codepoint=0x20, max_codepoint=0x6FF, exclude_categories=["Cs"]),
        st.sampled_from(
            "\u200b\u200d\u200c\u200e\ufe0f\u00ad\u0301\u0308\u0306\u05b8\u064e\u65e5\u672c\u0e01\u1f08\U0001f469 "
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
).map(lambda text: unicodedata.normalize("NFC", text))


@given(scripts)
def test_to_fold_twice_changes_no_word(text: str) -> None:
    assert words(fold(text)) == words(text)


@given(scripts)
def test_places_are_those_of_the_text(text: str) -> None:
    places, folded = Places(text), fold(text)
    found = [places.place(at) for at in range(len(folded) + 1)]
    assert found == sorted(found) and found[-1] == len(text)
    for at, letter in enumerate(folded):
        if letter != "\u200b":
            own = text[places.place(at)]
            assert fold(own).strip("\u200b") == letter


@given(scripts, scripts)
def test_a_folded_query_matches(before: str, word: str) -> None:
    """Whatever is found by a text is found by its folded form: both have the same words."""
    text, said = unicodedata.normalize("NFC", f"{before} {word}"), words(word)
    assert words(text)[len(words(before)) :] == said == words(fold(word).replace("\u200b", " "))
