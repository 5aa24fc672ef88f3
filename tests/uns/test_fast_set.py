"""Sets whose elements take the fast path: the answers and the spool are those of the long way, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.roles.uns import fast_set
from lcc.roles.uns.session import Session
from tests.support.roles.uns import ROOT, World, codes

MD5 = "0123456789abcdef" * 2
VALUES = {
    "c": ["page.html", "a?c=d&amp;e=f", "x%20y", "../x", "", "http://site.example/x", "http://evil/", "ü", "a'b"],
    "m": ["text/html", "text/plain", "TEXT/HTML", "image/png", "nonsense"],
    "md5": [MD5, MD5.upper(), "zz"],
    "len": ["0", "12", "012", "-1"],
    "mtime": ["1700000000", "2024-01-02", "never", "1.5"],
    "op": ["update", "delete"],
    "s": ["lang: en"],
    "x": ["unknown"],
}  # fmt: skip
COMMON = ("c", "m", "md5", "len", "mtime")


@st.composite
def elements(draw: Any) -> str:
    """Mostly of one spelling and right; sometimes not."""
    usual = draw(st.integers(0, 9)) < 7
    names = COMMON if usual else draw(st.lists(st.sampled_from(list(VALUES)), max_size=6, unique=True))
    wrong = draw(st.integers(0, 9)) >= 8
    values = {name: draw(st.sampled_from(VALUES[name])) if wrong else VALUES[name][0] for name in names}
    space = draw(st.sampled_from(["", "\n", "\r\n", "  ", "<!-- <url/> -->", "<note><url c='n'/></note>", "text"]))
    spelled = "".join(f' {name}="{value}"' for name, value in values.items())
    return f"<url{spelled}/>{space}"


@pytest.fixture
def at_once() -> Iterator[None]:
    """Spellings are learned from the first element on."""
    before, fast_set.LONG_SET = fast_set.LONG_SET, 1
    yield
    fast_set.LONG_SET = before


def converse(folder: Path, pieces: list[bytes], *, short: bool, **settings: Any) -> tuple[str, list[bytes], int, int]:
    """The answer, the spooled sets, and how many elements came the long way, and in runs."""
    taken = {"long": 0, "runs": 0}
    real_element, real_learn = Session._element, fast_set.FastSet.learn
    real_run = Session._fast_urls

    def element(self: Session, *arguments: Any) -> None:
        taken["long"] += 1
        real_element(self, *arguments)

    def run(self: Session, arriving: Any, message: Any) -> None:
        taken["runs"] += len(message.rows)
        real_run(self, arriving, message)

    Session._element, Session._fast_urls = element, run  # type: ignore[method-assign]
    if not short:
        fast_set.FastSet.learn = lambda self, attributes: False  # type: ignore[method-assign]
    try:
        world = World(folder, **settings)
        cp = world.login()
        for piece in pieces:
            cp.send(piece)
        world.pump()
        world.disk.close_all()
    finally:
        Session._element, Session._fast_urls = real_element, real_run  # type: ignore[method-assign]
        fast_set.FastSet.learn = real_learn  # type: ignore[method-assign]
    files = [(folder / name).read_bytes() for name in world.set_files()]
    return cp.text, files, taken["long"], taken["runs"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    body=st.lists(elements(), min_size=3, max_size=25).map("".join),
    kind=st.sampled_from(["full", "partial"]),
    prefix=st.sampled_from([f' urlprefix="{ROOT}"', f' urlprefix="{ROOT}a"', ""]),
    size=st.integers(60, 700),
    urls_max=st.sampled_from([15, 1000]),
)
def test_the_same_answers_and_the_same_spool(
    tmp_path_factory: pytest.TempPathFactory,
    at_once: None,
    body: str,
    kind: str,
    prefix: str,
    size: int,
    urls_max: int,
) -> None:
    data = f'<lococa:set set="{kind}"{prefix}>{body}</lococa:set>'.encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    results = [
        converse(tmp_path_factory.mktemp("spool"), pieces, short=short, set_urls_max=urls_max)
        for short in (True, False)
    ]
    assert results[0][:2] == results[1][:2]


def usual_set(count: int, prefix: str = ROOT, start: str = "", **changed: str) -> bytes:
    """A set of usual elements."""
    values = {"m": "text/html", "md5": MD5, "len": "5", "mtime": "1700000000", **changed}
    spelled = "".join(f' {name}="{value}"' for name, value in values.items())
    body = "".join([f'<url c="{start}page{number}.html"{spelled}/>\n' for number in range(count)])
    urlprefix = f' urlprefix="{prefix}"' if prefix else ""
    return f'<lococa:set set="full"{urlprefix}>\n{body}</lococa:set>'.encode()


def cut(data: bytes, size: int = 8192) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("prefix", [ROOT, ""])
def test_nearly_all_elements_of_a_long_set_go_the_short_way(tmp_path: Path, prefix: str) -> None:
    data = usual_set(2000, prefix, "" if prefix else ROOT)
    text, files, long, runs = converse(tmp_path / "a", cut(data), short=True)
    assert '<set_accepted received="2000"/>' in text
    assert long + runs == 2000 and long < 200
    assert (text, files) == converse(tmp_path / "b", cut(data), short=False)[:2]
    assert files[0].count(b"\n") == 2001


def test_a_mime_type_that_is_not_taken_is_refused_each_time(tmp_path: Path) -> None:
    data = usual_set(300).replace(b"</lococa:set>", b"") + usual_set(100, m="image/png").partition(b">\n")[2]
    text, files, _long, runs = converse(tmp_path / "a", cut(data), short=True)
    assert runs > 200
    assert '<set_accepted received="300"/>' in text and codes(text) == [1207] * 100
    assert (text, files) == converse(tmp_path / "b", cut(data), short=False)[:2]


def test_each_set_of_a_connection_has_its_own_spellings(tmp_path: Path) -> None:
    sets = [usual_set(300), usual_set(300, f"{ROOT}b/"), usual_set(300, "", ROOT), usual_set(300, "", "http://evil/")]
    data = b"\n".join(sets)
    text, files, _long, runs = converse(tmp_path / "a", cut(data, 3000), short=True)
    assert runs > 500
    assert codes(text) == [*[1204] * 300, 1106]  # the last one names nothing within the roots
    assert (text, files) == converse(tmp_path / "b", cut(data, 3000), short=False)[:2]


def test_small_sets_learn_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(fast_set, "Spelling", lambda *arguments: made.append(arguments))
    text, _files, long, _runs = converse(tmp_path, cut(usual_set(fast_set.LONG_SET - 1), 200), short=True)
    assert '<set_accepted received="49"/>' in text and long == 49 and not made


def test_a_rejection_within_a_run(tmp_path: Path) -> None:
    data = usual_set(500)
    results = [
        converse(tmp_path / str(short), cut(data), short=short, set_urls_max=400)[:2] for short in (True, False)
    ]
    assert results[0] == results[1]
    assert "<set_rejected" in results[0][0] and results[0][1] == []
