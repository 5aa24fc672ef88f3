"""One element: every rule, the order of the rules, and what a refused element still says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.config import DEFAULT_MIMETYPES
from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import _TEXTS, _URLS, ElementChecker, ElementError
from lcc.domain.urls import Roots, normalise
from lcc.errors import SetError
from lcc.model import UrlNotice

MD5 = "D41D8CD98F00B204E9800998ECF8427E"
SITE = "http://site.example/"


def checker(hours: str = "", prefix: str = SITE, slots: int = 24) -> ElementChecker:
    return ElementChecker(Roots([SITE]), MimePatterns(DEFAULT_MIMETYPES), hours, prefix, slots)


def check(**attributes: str) -> UrlNotice | None:
    return checker().check(attributes)


def valid(**attributes: str) -> UrlNotice:
    notice = checker().check({"c": "a.html", "m": "text/html", **attributes})
    assert notice is not None
    return notice


def refused(attributes: dict[str, str], checks: ElementChecker | None = None) -> ElementError:
    with pytest.raises(ElementError) as caught:
        (checks or checker()).check(attributes)
    return caught.value


def test_hours_are_those_of_a_day_unless_it_is_said() -> None:
    usual = ElementChecker(Roots([SITE]), MimePatterns(DEFAULT_MIMETYPES), "", SITE)
    assert usual.check({"c": "a.html", "m": "text/html", "hours": "23"}) is not None
    assert refused({"c": "a.html", "m": "text/html", "hours": "24"}, usual)


def test_the_usual_element() -> None:
    attributes = {"c": "a.html", "m": "Text/HTML; x=y", "md5": MD5, "len": "0123", "mtime": "1500000000"}
    assert checker().check(attributes) == UrlNotice(
        curl="http://site.example/a.html",
        mimetype="text/html",
        md5=MD5.lower(),
        length=123,
        mtime=1_500_000_000,
        sent=f'["c","a.html","m","Text/HTML; x=y","md5","{MD5}","len","0123","mtime","1500000000"]',
    )


def test_the_seeds_element() -> None:
    assert check(c="index.htm", b="frameset.htm?index.htm", f="index.htm?lococa", m="text/html") == UrlNotice(
        curl="http://site.example/index.htm",
        burl="http://site.example/frameset.htm?index.htm",
        furl="http://site.example/index.htm?lococa",
        mimetype="text/html",
        sent='["c","index.htm","b","frameset.htm?index.htm","f","index.htm?lococa","m","text/html"]',
    )


def test_long_spellings_say_the_same() -> None:
    short = {"c": "a", "f": "b", "b": "d", "m": "text/html", "s": "x: y"}
    long = dict(zip(["curl", "furl", "burl", "mimetype", "subtype"], short.values(), strict=True))
    one, other = checker().check(short), checker().check(long)
    assert one is not None
    assert other is not None
    assert one._replace(sent="") == other._replace(sent="")
    assert json.loads(other.sent) == [text for pair in long.items() for text in pair]
    both = checker().check({**long, **short})
    assert both is not None
    assert both._replace(sent="") == one._replace(sent="")


@pytest.mark.parametrize("pair", [("curl", "c"), ("furl", "f"), ("burl", "b"), ("mimetype", "m"), ("subtype", "s")])
def test_conflicts(pair: tuple[str, str]) -> None:
    attributes = {"c": "a", "m": "text/html", pair[0]: "x", pair[1]: "y"}
    assert refused(attributes).entry.name == "conflict"


def test_urls_that_are_the_conceptual_one_are_left_out() -> None:
    notice = valid(f="http://SITE.example:80/a.html", b="x/../a.html")
    assert (notice.furl, notice.burl) == ("", "")
    assert valid(browse="no").burl == "-"
    assert valid(browse="no", b="x").burl == "-"
    assert valid(browse="yes").burl == ""
    assert valid(b="").burl == ""
    assert valid(b="http://elsewhere.example/x").burl == "http://elsewhere.example/x"


def test_subtypes() -> None:
    assert valid(s="kind: news").subtype == "kind: news"
    assert valid(s="kind:news").subtype == "kind:news"
    assert valid(s="k:n").subtype == "k:n"
    for blanked in ("news", ":x", "kind:", "kind: ", "a b: c", ""):
        assert valid(s=blanked).subtype == ""


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("1500000000", 1_500_000_000),
        ("1500000000.75", 1_500_000_000),
        ("0", 0),
        ("-1", -1),
        ("2017-07-14T02:40:00Z", 1_500_000_000),
        ("2017-07-14T04:40:00+02:00", 1_500_000_000),
        ("2017-07-14 02:40:00", 1_500_000_000),
        ("2017-07-14T02:40:00.999Z", 1_500_000_000),
        ("20170714T024000Z", 1_500_000_000),
        ("2017-07-14", 1_499_990_400),
        ("1969-12-31T23:59:59.5Z", -1),
        ("", None),
    ],
)
def test_mtime(told: str, seconds: int | None) -> None:
    assert valid(mtime=told).mtime == seconds


def test_flags() -> None:
    assert valid(ifabsent="yes").ifabsent
    assert not valid(ifabsent="no").ifabsent
    assert not valid(op="update").delete
    assert valid(hours="22-6,12").hours == "22-6,12"


def test_deletions() -> None:
    for how in ({"op": "delete"}, {"f": ""}, {"furl": ""}, {"op": "update", "f": ""}, {"op": "delete", "f": "x"}):
        notice = checker().check({"c": "a", **how})
        assert notice is not None
        assert notice._replace(sent="") == UrlNotice(curl="http://site.example/a", delete=True)
    one_view = check(c="a", m="image/png", op="delete", md5="junk")
    assert one_view is not None
    assert one_view.mimetype == "image/png"
    assert refused({"c": "a", "m": "nonsense", "op": "delete"}).entry.name == "bad-mimetype"
    assert refused({"c": "http://other/", "op": "delete"}).entry.name == "outside-roots"
    assert check(c="http://other/", op="delete", outside="drop") is None
    not_taken = check(c="a", m="video/mpeg", op="delete")
    assert not_taken is not None  # it may have been, earlier


def test_outside() -> None:
    assert refused({"c": "http://other/", "m": "text/html"}).entry.name == "outside-roots"
    assert refused({"c": "a", "f": "http://other/", "m": "text/html"}).entry.name == "outside-roots"
    assert check(c="http://other/", outside="drop") is None
    assert check(c="a", f="https://other/", outside="drop") is None
    assert valid(outside="drop").curl == "http://site.example/a.html"


RULES = [
    ({"c": "x" * 4097}, "too-long"),
    ({"md5": "x" * 1025}, "too-long"),
    ({"curl": "b"}, "conflict"),
    ({"c": ""}, "curl-missing"),
    ({"c": "http://a b/"}, "bad-url"),
    ({"c": "gopher://h/"}, "bad-scheme"),
    ({"c": "http://u:p@site.example/"}, "user-info"),
    ({"c": "\u0001"}, "bad-url"),
    ({"c": "é" * 1000}, "too-long"),
    ({"op": "replace"}, "bad-op"),
    ({"op": ""}, "bad-op"),
    ({"browse": "maybe"}, "bad-flag"),
    ({"ifabsent": "1"}, "bad-flag"),
    ({"outside": "error"}, "bad-flag"),
    ({"outside": "~"}, "bad-flag"),
    ({"f": "http://a b/"}, "bad-url"),
    ({"f": "gopher://h/"}, "bad-scheme"),
    ({"b": "javascript://x"}, "bad-scheme"),
    ({"f": "http://other/"}, "outside-roots"),
    ({"m": ""}, "mimetype-missing"),
    ({"m": "html"}, "bad-mimetype"),
    ({"m": "video/mpeg"}, "mimetype-not-accepted"),
    ({"md5": MD5[1:]}, "bad-md5"),
    ({"md5": MD5[1:] + "g"}, "bad-md5"),
    ({"len": "-1"}, "bad-len"),
    ({"len": "1e3"}, "bad-len"),
    ({"len": "٣"}, "bad-len"),
    ({"len": "9" * 16}, "bad-len"),
    ({"mtime": "yesterday"}, "bad-mtime"),
    ({"mtime": "2017-13-01"}, "bad-mtime"),
    ({"mtime": "9" * 13}, "bad-mtime"),
    ({"mtime": "0001-01-01T00:00:00+14:00"}, ""),
    ({"hours": "25"}, "bad-hours"),
    ({"hours": "mon 0-8"}, "bad-hours"),
    ({"hours": "12"}, "hours-never"),
]


@pytest.mark.parametrize(("changed", "name"), RULES)
def test_rules(changed: dict[str, str], name: str) -> None:
    attributes = {"c": "a", "m": "text/html", **changed}
    if name:
        error = refused(attributes, checker("0-8"))
        assert error.entry.name == name
        assert 1200 < error.code < 1300
    else:
        assert checker("0-8").check(attributes)


def test_the_first_rule_that_is_broken_is_told() -> None:
    broken = [changed for changed, name in RULES if name]
    names = [name for _changed, name in RULES if name]
    for index, changed in enumerate(broken):
        for later in broken[index + 1 :]:
            merged = {"c": "a", "m": "text/html", **later, **changed}
            if changed.keys() & later.keys() or "curl" in later:
                continue
            assert refused(merged, checker("0-8")).entry.name == names[index], merged


def test_what_a_refused_element_says() -> None:
    error = refused({"c": "a", "f": "b c", "m": "text/html", "len": "x"})
    assert error.url == "http://site.example/b%20c"
    assert error.named == UrlNotice("http://site.example/a", mimetype="text/html", named_only=True)
    error = refused({"curl": "http://Other/", "mimetype": "video/MPEG"})
    assert error.url == "http://other/"
    assert error.named == UrlNotice("http://other/", mimetype="video/mpeg", named_only=True)
    error = refused({"c": "a", "m": "junk"})
    assert error.url == "http://site.example/a"
    assert error.named == UrlNotice("http://site.example/a", named_only=True)
    error = refused({"c": "http://u@h/", "m": "text/html"})
    assert (error.url, error.named) == ("http://u@h/", None)
    error = refused({"m": "text/html", "f": "x"})
    assert (error.url, error.named) == ("http://site.example/x", None)
    error = refused({})
    assert (error.url, error.named, error.entry.name) == ("", None, "curl-missing")
    error = refused({"c": "a", "curl": "b", "m": "text/html"})
    assert error.named == UrlNotice("http://site.example/b", mimetype="text/html", named_only=True)
    error = refused({"c": "a", "m": "text/html", "mimetype": "text/plain"})
    assert error.named == UrlNotice("http://site.example/a", named_only=True)
    error = refused({"c": "x" * 5000, "m": "text/html"})
    assert error.named is None
    assert len(error.url) <= 4096


def test_what_is_not_known_is_ignored_but_given_back() -> None:
    notice = valid(colour="blue", title='"quoted" \\ \n é')
    assert json.loads(notice.sent)[-4:] == ["colour", "blue", "title", '"quoted" \\ \n é']
    assert valid(remark="x" * 3000).curl


def test_prefixes() -> None:
    for prefix in ("http://site.example", "http://site.example/x?p=", "HTTPS://h", "http://", "Http://", ""):
        checker(prefix=prefix)
    for prefix in (
        "site.example/",
        "http:",
        "http:/",
        "gopher://",
        "://",
        "http:/x",
        "http://u@h/",
        "gopher://h/",
        "http://h/" + "x" * 4096,
    ):
        with pytest.raises(SetError) as caught:
            checker(prefix=prefix)
        assert caught.value.entry.name == "bad-prefix"
    assert checker(prefix="http://site.ex").check({"c": "ample/a", "op": "delete"})
    for prefix in ("http://", "HTTP://"):  # seed 000
        notice = checker(prefix=prefix).check({"c": "Site.example/a", "m": "text/html"})
        assert notice is not None and notice.curl == "http://site.example/a"
    assert refused({"c": "a", "m": "text/html"}, checker(prefix="")).entry.name == "bad-url"


def test_hours_of_provider_and_url() -> None:
    assert checker("22-6").check({"c": "a", "m": "text/html", "hours": "5-7"})
    assert refused({"c": "a", "m": "text/html", "hours": "6-7"}, checker("22-6")).entry.name == "hours-never"
    week = checker("mon 22-6", slots=168)
    assert week.check({"c": "a", "m": "text/html", "hours": "tue 5"})
    assert refused({"c": "a", "m": "text/html", "hours": "wed 5"}, week).entry.name == "hours-never"
    with pytest.raises(ValueError, match="not like"):
        checker("often")


def test_what_is_kept_for_speed_stays_bounded() -> None:
    checks = ElementChecker(Roots([SITE]), MimePatterns(["*/*"]), "", SITE)
    for number in range(3000):
        assert checks.check({"c": "a", "m": f"text/x{number}", "hours": f"{' ' * (number % 900)}{number % 24}"})
    assert len(checks._accepted) <= 1000
    assert len(checks._hours_met) <= 1000


NAMES = st.sampled_from([*sorted(_URLS | _TEXTS), "other"])
VALUES = st.one_of(
    st.sampled_from(
        ["", "a", "text/html", "delete", "yes", "no", "drop", "0-8", MD5, "12", SITE, "http://h/", "x: y"]
    ),
    st.text(max_size=12),
)


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_any_element_gives_a_notice_or_an_error(attributes: dict[str, str]) -> None:
    try:
        notice = checker().check(attributes)
    except ElementError as error:
        assert error.named is None or error.named.named_only
        return
    if notice is None:
        assert attributes["outside"] == "drop"
        return
    assert notice.curl == normalise(notice.curl)
    assert notice.curl.startswith((SITE, "https" + SITE[4:]))
    assert notice.furl == "" or notice.furl == normalise(notice.furl)
    assert notice.mimetype or notice.delete
    assert json.loads(notice.sent) == [text for pair in attributes.items() for text in pair]


def test_what_was_told_below_a_former_root_may_be_deleted() -> None:
    former = Roots(["http://old.example/a/"])
    checks = ElementChecker(Roots([SITE]), MimePatterns(DEFAULT_MIMETYPES), "", SITE, former_roots=former)
    for url in ("http://old.example/a/x", "https://old.example/a/x"):
        for how in (
            {"op": "delete"},
            {"f": ""},
            {"op": "delete", "m": "text/html"},
            {"op": "delete", "outside": "drop"},
        ):
            notice = checks.check({"c": url, **how})
            assert notice is not None and notice.delete and notice.curl == url
        assert refused({"c": url, "m": "text/html"}, checks).entry.name == "outside-roots"
        assert refused({"c": "a", "f": url, "m": "text/html"}, checks).entry.name == "outside-roots"
    assert refused({"c": "http://old.example/b", "op": "delete"}, checks).entry.name == "outside-roots"
