"""Names of URLs: presets, host resolvers, start lists and scopes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.urls import normalise
from lcc.errors import ConfigError, UrlError
from lcc.spider.names import UrlNames
from lcc.spider.names.host_resolver import read_host_resolver
from lcc.spider.names.presets import larm
from lcc.spider.names.scope import TIMEOUTS_MAX, Scope
from lcc.spider.names.start_list import read_start_list

SEED = r"""
#hostResolver.properties
#format:
# startsWith(part1) = part2
startsWith(www.)=
startsWith(www2.)=
startsWith(w3.)=
endsWith(.somehost.com)=.somhost2.com
synonym(daedalus.apache.org)=apache.org
"""
SCHEMES = ("http", "https", "ftp", "file")


def curl(url: str, preset: str = "safe", rules: str = "") -> str:
    return UrlNames(preset, read_host_resolver(rules) if rules else None).names(normalise(url)).curl


def faults(call: object, *given: object) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        call(*given)  # type: ignore[operator]
    return raised.value.faults


class TestPresets:
    def test_safe_compares_what_rfc_3986_makes_equal(self) -> None:
        assert curl("HTTP://Host:80") == "http://host/"
        assert curl("http://host/%7Eme/./a/../b") == "http://host/~me/b"
        assert curl("http://host/A") != curl("http://host/a")

    @pytest.mark.parametrize(
        ("url", "compared"),
        [
            ("http://Host/Dir/Page.HTML", "http://host/dir/page.html"),
            ("http://host/a b", "http://host/a%20b"),
            ("http://host/a+b?c+d", "http://host/a%20b?c%20d"),
            ("http://host/%41?Q=%41B", "http://host/a?Q=AB"),
            ("http://host/ä", "http://host/%C3%A4"),
            ("http://host//a///b//", "http://host/a/b/"),
            ("http://host/a/./b", "http://host/a/b"),
            ("http://host/a/../b", "http://host/b"),
            ("http://host/index.html", "http://host/"),
            ("http://host/a/Default.asp?id=3", "http://host/a/?id=3"),
            ("http://host/indexes/x", "http://host/indexes/x"),
            ("http://host/a?", "http://host/a"),
            ("http://host/~me/(x),y", "http://host/%7Eme/%28x%29%2Cy"),
            ("http://host/?u=//x", "http://host/?u=//x"),
        ],
    )
    def test_larm_compares_as_the_seed_says(self, url: str, compared: str) -> None:
        assert curl(url, "larm") == compared

    @given(st.text(max_size=40))
    def test_larm_compares_its_own_form_as_equal(self, text: str) -> None:
        try:
            url = normalise("http://host/" + text).partition("#")[0]
        except UrlError:
            return
        once = larm(url[len("http://host") :])
        assert once.startswith("/")
        assert larm(once) == once

    def test_a_page_is_fetched_as_linked(self) -> None:
        names = UrlNames("larm", read_host_resolver(SEED)).names("http://www.Host/Index.html".replace("Host", "host"))
        assert names == ("http://host/", "http://www.host/Index.html", "www.host")

    def test_an_unknown_preset_is_named(self) -> None:
        assert faults(UrlNames, "perl") == ["there is no preset 'perl' of names; there are safe, larm"]


class TestHostResolver:
    def test_the_file_of_the_seed_works_as_it_stands(self) -> None:
        assert (
            curl("http://www.cnn.com/", rules=SEED)
            == curl("http://cnn.com/")
            == curl("http://w3.cnn.com/", rules=SEED)
        )
        assert curl("http://x.somehost.com/a", rules=SEED) == "http://x.somhost2.com/a"
        assert curl("http://www.daedalus.apache.org/", rules=SEED) == "http://apache.org/"

    def test_starts_then_ends_then_synonyms_and_the_first_of_each(self) -> None:
        rules = "synonym(b.org)=c.org\nendsWith(.com)=.org\nstartsWith(www.)=\nstartsWith(w)=nothing\n"
        assert curl("http://www.b.com/", rules=rules) == "http://c.org/"

    def test_commas_are_dots(self) -> None:
        assert curl("http://www.a.com/", rules="startsWith(www,)=\nendsWith(a,com)=b,com") == "http://b.com/"

    def test_ports_stay(self) -> None:
        assert curl("http://www.a.com:8080/", rules=SEED) == "http://a.com:8080/"
        assert curl("http://[::1]:8080/", rules=SEED) == "http://[::1]:8080/"

    def test_it_is_a_properties_file(self) -> None:
        rules = "! a comment\n  startsWith(www.) : \\\n   web.\r\n\nendsWith(\\u002ecom)\t=\t.org\nsynonym(a)  b"
        assert curl("http://www.x.com/", rules=rules) == "http://web.x.org/"
        assert curl("http://a/", rules=rules) == "http://b/"

    def test_a_rule_that_leaves_nothing_is_for_other_hosts(self) -> None:
        assert curl("http://localhost/", rules="startsWith(local)=\nendsWith(host)=") == "http://localhost/"

    def test_synonyms_of_synonyms_are_followed(self) -> None:
        rules = "synonym(a)=b\nsynonym(b)=c"
        assert curl("http://a/", rules=rules) == curl("http://b/", rules=rules) == "http://c/"

    def test_bad_lines_are_named_all_at_once(self) -> None:
        text = "startswith(www.)=\nstartsWith(w w)=\nendsWith()=x\nsynonym(a)=\nsynonym(b)=c\nsynonym(b)=d\n"
        assert faults(read_host_resolver, text) == [
            "line 1: 'startswith(www.)' is none of startsWith(…), endsWith(…), synonym(…)",
            "line 2: 'startsWith(w' is none of startsWith(…), endsWith(…), synonym(…)",
            "line 3: endsWith: a host is missing",
            "line 4: synonym: a host is missing",
            "line 6: synonym(b) was 'c' before",
        ]
        assert faults(read_host_resolver, "\n\nsynonym(a)=\\uXY") == ["line 3: \\u needs four hexadecimal digits"]

    def test_synonyms_in_a_circle_are_named(self) -> None:
        text = "synonym(x)=a\nsynonym(a)=b\n#\nsynonym(b)=c\nsynonym(c)=a"
        assert faults(read_host_resolver, text) == [
            "line 2: synonyms in a circle: a (line 2) -> b (line 4) -> c (line 5) -> a"
        ]
        assert len(faults(read_host_resolver, "synonym(a)=a\nsynonym(b)=b\nsynonym(c)=b")) == 2


class TestStartLists:
    def test_urls_are_normal_and_each_once(self) -> None:
        lines = ["\ufeffhttp://Host\n", "\n", "# a comment\n", "  http://host:80/#top \n", "ftp://h/x\n"]
        assert read_start_list(lines, SCHEMES) == ["http://host/", "ftp://h/x"]

    def test_comments_may_follow_urls(self) -> None:
        lines = ["http://h/a # the first\n", "http://h/b#top # the second\n", "  # none\n"]
        assert read_start_list(lines, SCHEMES) == ["http://h/a", "http://h/b"]

    def test_bad_lines_are_named(self) -> None:
        lines = [
            "http://ok/",
            "example.org",
            "http://ho st/",
            "gopher://h/",
            "http://u:p@h/",
            "http://h/" + "a" * 5000,
        ]
        assert faults(read_start_list, lines, SCHEMES) == [
            "line 2: 'example.org' does not begin with http:// or another scheme",
            "line 3: 'http://ho st/': not a valid URL: the host",
            "line 4: 'gopher://h/': spiders follow http, https, ftp, file only",
            "line 5: 'http://u:p@h/': the URL must not contain a user name or password",
            f"line 6: {'http://h/' + 'a' * 71 + '…'!r} has more than 4096 characters",
        ]

    def test_many_bad_lines_are_counted(self) -> None:
        named = faults(read_start_list, ["x"] * 100, SCHEMES)
        assert (len(named), named[-1]) == (21, "and 80 more")
        assert faults(read_start_list, ["#"], SCHEMES) == ["no URL in it"]


class TestScopes:
    def test_an_expression_is_held_to_the_beginning(self) -> None:
        scope = Scope(r"http://([a-z]+\.)?example\.org/(?!private/)")
        assert scope.contains("http://www.example.org/x")
        assert not scope.contains("http://www.example.org/private/x")
        assert not scope.contains("http://evil.org/?http://example.org/")

    @pytest.mark.parametrize(
        "expression", [r"http://(a|aa)+/$", "http://[^/]+/(1|11|1/)+x", r"http://h\.org/(Q|QQ)+!", "(?R)"]
    )
    def test_a_catastrophic_one_is_refused(self, expression: str) -> None:
        assert "repeats repetitions" in faults(Scope, expression)[0]

    @pytest.mark.parametrize("expression", [r"(a+)+$", r"(\w+/?)+$", "(.*)*=.*", r"(x+x+)+y", r"^(\w+\W?)*!$"])
    def test_the_engine_sees_through_others(self, expression: str) -> None:
        scope = Scope(expression)
        assert not scope.contains("http://h/" + "a" * 4000 + "\x01")
        assert scope.timeouts <= 1

    @pytest.mark.parametrize(
        ("expression", "fault"),
        [
            ("http://(x", "the expression is not valid: missing ) at position 9"),
            ("((a{100}){100}){100}", "the expression counts too far: its {…} make more than 1000 together"),
            ("a{99999999999999999999}", "the expression counts too far: its {…} make more than 1000 together"),
            ("(" * 999 + ")" * 999, "the expression is too deeply nested"),
            ("x" * 2001, "the expression has more than 2000 characters"),
        ],
    )
    def test_what_cannot_be_compiled_is_told(self, expression: str, fault: str) -> None:
        assert faults(Scope, expression) == [fault]

    def test_looks_that_take_too_long_end_and_are_bounded(self) -> None:
        scope = Scope(r"http://(h|g)/(Q|QQ|QZ|Z|ZQ)+!")
        assert scope.contains("http://h/QZ!")
        evil = "http://h/" + "QZ" * 60
        for _ in range(TIMEOUTS_MAX):
            assert not scope.contains(evil)
        assert scope.is_exhausted
        assert not scope.contains("http://h/QZ!")
