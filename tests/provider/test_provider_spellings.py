"""URLs have many spellings: none of them ever leads to the deletion of what is live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.domain.urls import normalise, recoded, resolve
from lcc.provider.delivery import OtherPrefix
from lcc.provider.names import Names
from lcc.provider.site_diff import MassDelete, compare
from lcc.provider.statefile import StateFile, StateWriter, told_digest

from .model_lcc import ROOT, ModelLcc, publish

quick = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

PAGES = ["a/~x.html", "a/é.html", "b.html?q=ü&r=~", "c d.html", "deep/er/p.html", "index.html", "%41%2fb", "x#ü"]
TYPES = ["text/html", "text/plain"]

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda url: url,
    "normal": lambda url: normalise(url),
    "tilde encoded": lambda url: url.replace("~", "%7E"),
    "tilde encoded, lower case": lambda url: url.replace("~", "%7e"),
    "encoded": lambda url: url.replace("é", "%C3%A9").replace("ü", "%c3%bc").replace(" ", "%20"),
    "letters encoded": lambda url: url.replace("er", "%65%72").replace("html", "htm%6C"),
}
WHOLE: dict[str, Callable[[str], str]] = {
    **SPELLINGS,
    "host in capitals": lambda url: url.replace("site.example", "SITE.Example"),
    "scheme in capitals": lambda url: url.replace("http:", "HTTP:"),
    "default port": lambda url: url.replace("site.example/", "site.example:80/"),
    "trailing dot": lambda url: url.replace("site.example/", "site.example./"),
    "dot segments": lambda url: url.replace("example/", "example/./x/../"),
}
MIMETYPES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"{text}; charset=utf-8",
    lambda text: f" {text.upper()} ;q=1",
]


@st.composite
def elements(draw: st.DrawFn, prefix_known: bool) -> list[dict[str, str]]:
    """A site, each URL in some spelling, some of them in several."""
    site = []
    for page in draw(st.lists(st.sampled_from(PAGES), max_size=8)):
        if draw(st.booleans()):
            name = draw(st.sampled_from(list(WHOLE.values())))(ROOT + page)
        else:
            name = draw(st.sampled_from(list(SPELLINGS.values())))(ROOT + page).removeprefix(ROOT)
            if prefix_known and draw(st.booleans()):
                name = "./" + name
        mimetype = draw(st.sampled_from(MIMETYPES))(draw(st.sampled_from(TYPES)))
        long = draw(st.booleans())
        site.append({"curl" if long else "c": name, "mimetype" if long else "m": mimetype, "md5": draw(MD5)})
    return site


MD5 = st.sampled_from(["0" * 32, "1" * 32])


def live(site: list[dict[str, str]]) -> set[tuple[str, str]]:
    """What there is, as the LCC has it."""
    return {
        (
            normalise(resolve(ROOT, e.get("c") or e["curl"])),
            (e.get("m") or e["mimetype"]).split(";")[0].strip().lower(),
        )
        for e in site
    }


@quick
@given(data=st.data())
def test_no_spelling_deletes_what_is_live(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever is respelled, added and taken away, whatever is lost on the way, whether or not lcccpstate knows the
    prefix: the LCC has what the site has, and never was told to delete what is there."""
    path = tmp_path / "state"
    for name in ("state", "state.pending"):
        (tmp_path / name).unlink(missing_ok=True)
    lcc = ModelLcc()
    prefix_given = data.draw(st.booleans())
    for number in range(data.draw(st.integers(1, 4))):
        site = data.draw(elements(True))
        fate = data.draw(st.sampled_from(["accepted", "accepted", "lost", "cut"]))
        full = data.draw(st.integers(0, 5)) == 0
        lcc.deletions.clear()
        run = publish(
            lcc, path, site, fate=fate, full=full, token=f"t{number}", state_prefix=ROOT if prefix_given else ""
        )
        assert not live(site) & set(lcc.deletions), (site, run.sent)
        assert run.trouble == ""
        if fate != "cut":
            assert lcc.cache.keys() == live(site)
    site = data.draw(elements(True))
    publish(lcc, path, site, token="last")
    assert lcc.cache.keys() == live(site)
    # And once all is told, another spelling of it is not even sent.
    again = [{"c": url, "m": mimetype} for url, mimetype in sorted(live(site))]
    if StateFile(path).urlprefix() or prefix_given:
        publish(lcc, path, [{"c": e["c"].removeprefix(ROOT), "m": e["m"]} for e in again], token="once")
        assert publish(lcc, path, again, token="again", state_prefix=ROOT).sent == []
    assert lcc.cache.keys() == live(site)


@given(st.text(alphabet="aZ~%é/.?#&=+ 4176cC_", max_size=12), st.sampled_from([ROOT, ROOT + "x?y=", ROOT + "d/"]))
def test_what_has_one_key_without_the_prefix_has_one_behind_it(name: str, prefix: str) -> None:
    """Percent-encoding does not depend on what stands before."""
    assert Names(prefix).url(recoded(name)) == Names(prefix).url(name)


PAIRS = [
    ({"c": "a.html", "m": "text/html"}, {"c": "a.html", "m": "text/html; charset=utf-8"}),
    ({"c": "%7Ea", "m": "text/html"}, {"c": "~a", "m": "text/html"}),
    ({"c": "é", "m": "text/html"}, {"c": "%C3%A9", "m": "text/html"}),
    ({"c": "a.html", "m": "text/html"}, {"c": ROOT + "a.html", "m": "text/html"}),
    ({"c": ROOT + "a.html", "m": "text/html"}, {"c": "a.html", "m": "text/html"}),
    ({"c": ROOT + "a", "m": "text/html"}, {"c": "HTTP://SITE.example:80/./a", "m": "text/html"}),
    ({"curl": "./a", "mimetype": "TEXT/HTML"}, {"c": "a", "m": "text/html"}),
]


def write_version_1(path: Path, site: list[dict[str, str]]) -> None:
    """A state file as version 0.1.0 wrote it."""
    lines = [
        f"{told_digest(e)} {json.dumps([e.get('c') or e['curl'], e.get('m') or e.get('mimetype', '')])}\n"
        for e in site
    ]
    path.write_text(f"lcc-state 1 t\n{''.join(lines)}end {len(lines)}\n")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_respelled_page_stays(tmp_path: Path, version: int, old: dict[str, str], new: dict[str, str]) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    publish(lcc, path, [old])
    if version == 1:
        write_version_1(path, [old])
    run = publish(lcc, path, [new])
    assert lcc.deletions == []
    assert lcc.cache.keys() == live([new])
    # Told again where lcccpstate cannot know that they are one: no relative name was taken behind a prefix before.
    prefix_unknown = old["c"].startswith(ROOT) and not new["c"].startswith("HTTP") if "c" in old else False
    assert run.sent in ([], [new]) if version == 1 or prefix_unknown else run.sent == []


def test_a_state_file_of_version_1_is_read_and_upgraded(tmp_path: Path) -> None:
    """Nothing is sent anew, nothing deleted, what is gone is."""
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [{"c": f"p%7E{number}", "m": "text/html; charset=utf-8", "md5": "0" * 32} for number in range(30)]
    publish(lcc, path, site)
    write_version_1(path, site)
    assert publish(lcc, path, site).sent == []
    assert path.read_text().startswith(f'lcc-state 2 t "{ROOT}"\n')
    site[3]["md5"] = "1" * 32
    assert publish(lcc, path, site).sent == [site[3]]
    assert publish(lcc, path, site).sent == []
    assert publish(lcc, path, site[1:]).sent == [{"c": "p%7E0", "m": "text/html", "op": "delete"}]
    assert lcc.cache.keys() == live(site[1:])


def test_a_deletion_without_a_type_deletes_no_other_view(tmp_path: Path) -> None:
    """Version 1 noted what was refused as told: a page without a mime type, say."""
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [{"c": "a", "m": "text/html"}]
    publish(lcc, path, site)
    write_version_1(path, [*site, {"c": "a"}, {"c": "b"}])
    assert publish(lcc, path, site).sent == [{"c": "b", "op": "delete"}]
    assert lcc.cache.keys() == live(site)


def test_deletions_travel_first(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    publish(lcc, path, [{"c": f"{number}", "m": "text/html", "md5": "0" * 32} for number in range(9)])
    site = [{"c": f"{number}", "m": "text/html", "md5": "1" * 32} for number in range(4, 20)]
    sent = publish(lcc, path, site).sent
    assert [element.get("op", "") for element in sent] == ["delete"] * 4 + [""] * 16
    assert sent[4:] == site


def test_another_prefix_is_noticed(tmp_path: Path) -> None:
    """A slip of the pen sends nothing; a site that has moved is told behind its new prefix, and deleted behind the
    old one, once lcccpstate knows."""
    lcc, path = ModelLcc(roots=(ROOT, "http://new.example/")), tmp_path / "state"
    site = [{"c": f"{number}", "m": "text/html", "f": f"{number}?f"} for number in range(3)]
    publish(lcc, path, site)
    before, cache = path.read_text(), dict(lcc.cache)
    new = "http://new.example/"
    with pytest.raises(OtherPrefix, match=r"is of URLs behind http://site.example/, and --urlprefix is http://new"):
        publish(lcc, path, site, prefix=new)
    with pytest.raises(OtherPrefix, match="and --urlprefix is not given"):
        publish(lcc, path, site, prefix="")
    assert (path.read_text(), lcc.cache) == (before, cache)
    assert publish(lcc, path, site).sent == []
    sent = publish(lcc, path, site, prefix=new, state_prefix=new).sent
    assert [element["c"] for element in sent] == [ROOT + "0", ROOT + "1", ROOT + "2", "0", "1", "2"]
    assert {url for url, _ in lcc.cache} == {new + "0", new + "1", new + "2"}
    assert publish(lcc, path, site, prefix=new).sent == []
    # A full set names everything: it needs no further word.
    publish(lcc, path, site, full=True)
    assert {url for url, _ in lcc.cache} == {ROOT + "0", ROOT + "1", ROOT + "2"}
    assert publish(lcc, path, site).sent == []


def test_a_lost_answer_over_a_change_of_prefix(tmp_path: Path) -> None:
    lcc, path = ModelLcc(roots=(ROOT, "http://new.example/")), tmp_path / "state"
    site = [{"c": "a", "m": "text/html"}]
    publish(lcc, path, site)
    publish(lcc, path, site, prefix="http://new.example/", state_prefix="http://new.example/", fate="lost")
    publish(lcc, path, site, prefix="http://new.example/", token="u")
    assert {url for url, _ in lcc.cache} == {"http://new.example/a"}


def test_whole_names_that_become_relative_ask_for_the_prefix(tmp_path: Path) -> None:
    """lcccpstate cannot know it then: a large site must not look gone in silence."""
    path = tmp_path / "state"
    state = StateFile(path)
    whole = [{"c": f"{ROOT}{number}", "m": "text/html"} for number in range(20)]
    publish(ModelLcc(), path, whole)
    writer = StateWriter(state.pending, "t")
    with pytest.raises(MassDelete) as caught:
        compare(state, [{**e, "c": e["c"].removeprefix(ROOT)} for e in whole], writer, lambda _: None, now=0)
    writer.abandon()
    assert "must be given to lcccpstate as well" in caught.value.then
