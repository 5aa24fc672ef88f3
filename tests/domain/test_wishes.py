"""What may be wished for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.fetches.hours import parse_hours
from lcc.domain.registration.wishes import (
    CONTACT_CHARS,
    HOURS_CHARS,
    Allowed,
    is_mail_address,
    read_contact,
    read_site,
    read_wishes,
)
from lcc.domain.timezones import timezone_fault
from lcc.model import Wishes

FREE = Allowed(priority_max=2)


def read(allowed: Allowed = FREE, **fields: str) -> tuple[Wishes, dict[str, str]]:
    faults: dict[str, str] = {}
    return read_wishes(fields, allowed, faults), faults


def test_no_wish_is_what_one_gets() -> None:
    assert read() == (Wishes(), {})
    assert read(Allowed(bandwidth_max=1000)) == (Wishes(bandwidth_bytes=1000), {})


def test_wishes_that_are_granted() -> None:
    wishes, faults = read(bandwidth=" 5000 ", hours="22-6, 12", timezone="Europe/Amsterdam", priority="2")
    assert (wishes, faults) == (Wishes(5000, "22-6, 12", "Europe/Amsterdam", 2), {})


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("bandwidth", text) for text in ("0", "-1", "1.5", "x", "1e3", "10001", "9" * 30, "\u0665", "none")),
        *(("priority", text) for text in ("2", "3", "-1", "x", "01", "\u0661")),
        *(("hours", text) for text in ("25", "8-8", "mon 1-2", "x", "1,,2", "1," * 200)),
        *(
            ("timezone", text)
            for text in (
                "Nowhere",
                "Factory",
                "localtime",
                "posixrules",
                "../../etc/passwd",
                "/etc/localtime",
                "x" * 5000,
                "a\0b",
            )
        ),
    ],
)
def test_wishes_that_are_not(field: str, text: str) -> None:
    wishes, faults = read(Allowed(bandwidth_max=10_000, priority_max=1), **{field: text})
    assert set(faults) == {field}
    assert wishes == Wishes(bandwidth_bytes=10_000)


@given(
    st.builds(Allowed, bandwidth_max=st.integers(0, 10**6), priority_max=st.integers(0, 2)),
    st.dictionaries(
        st.sampled_from(["bandwidth", "hours", "timezone", "priority"]),
        st.one_of(st.text(max_size=12), st.integers(-5, 10**7).map(str), st.from_regex(r"\A[0-9,-]{1,9}\Z")),
    ),
)
def test_nobody_gets_more_than_is_allowed(allowed: Allowed, fields: dict[str, str]) -> None:
    faults: dict[str, str] = {}
    wishes = read_wishes(fields, allowed, faults)
    assert set(faults) <= set(fields)
    assert wishes.priority <= allowed.priority_max
    if allowed.bandwidth_max:
        assert wishes.bandwidth_bytes is not None and 0 < wishes.bandwidth_bytes <= allowed.bandwidth_max
    assert parse_hours(wishes.hours) and not timezone_fault(wishes.timezone)


@pytest.mark.parametrize("text", ["a@b", "web.master+lcc@www.example.org", "x" * 64 + "@example.org"])
def test_mail_addresses(text: str) -> None:
    assert is_mail_address(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\n", "a@b\r\nBcc: c@d", "<a@b>", "a@-b", "a@b..c", "ä@b", "a@ä"),
        *("x" * 65 + "@b", "a@" + "b" * 300, "a,b@c", '"a b"@c', "a@b>", "a@[127.0.0.1]"),
    ],
)
def test_what_is_no_mail_address(text: str) -> None:
    assert not is_mail_address(text)


def test_contact_and_site() -> None:
    faults: dict[str, str] = {}
    assert read_contact({"contact": " a@b "}, faults) == "a@b"
    assert read_site({"site": "http://host"}, FREE, faults) == "http://host/"
    assert not faults
    assert read_contact({}, faults) == "" and read_site({}, FREE, faults) == ""
    assert set(faults) == {"contact", "site"}
    assert read_site({"site": "http://host:81/"}, Allowed(any_port=True), {}) == "http://host:81/"
    assert read_site({"site": "~host"}, FREE, faults) == "" and "the host" in faults["site"]
    assert read_site({"site": "http://host:81/"}, Allowed(), faults) == "" and "ports" in faults["site"]


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("host", "https://host/"),
        ("//host/a.b", "https://host/"),
        ("/host/a.b/", "https://host/a.b/"),
        ("http://host/a.b/", "http://host/a.b/"),
    ],
)
def test_a_site_without_scheme_is_one_of_https(text: str, folder: str) -> None:
    faults: dict[str, str] = {}
    assert (read_site({"site": text}, FREE, faults), faults) == (folder, {})


def test_what_is_said_of_a_wish_that_is_not_granted() -> None:
    assert read(Allowed(priority_max=1), priority="2")[1] == {"priority": "0 to 1"}
    assert read(Allowed(), priority="1")[1] == {"priority": "only 0 is allowed here"}
    assert read(Allowed(bandwidth_max=10), bandwidth="11")[1] == {
        "bandwidth": "at most 10 bytes per second are allowed here"
    }
    assert read(Allowed(), bandwidth="1") == (Wishes(bandwidth_bytes=1), {})
    assert read(Allowed(bandwidth_max=10), bandwidth="9") == (Wishes(bandwidth_bytes=9), {})
    assert read(Allowed(bandwidth_max=10), bandwidth="10") == (Wishes(bandwidth_bytes=10), {})
    assert read(Allowed(), bandwidth="9" * 18) == (Wishes(bandwidth_bytes=10**18 - 1), {})
    assert set(read(Allowed(), bandwidth=f"{10**18}")[1]) == {"bandwidth"}
    assert read(priority="0") == (Wishes(), {})
    assert read(Allowed(), bandwidth="x")[0] == Wishes()
    assert read(hours=" 1 ", timezone=" UTC ", priority=" 1 ")[0] == Wishes(None, "1", "UTC", 1)
    assert read(hours="1" + "," * HOURS_CHARS)[1] == {"hours": f"at most {HOURS_CHARS} characters"}
    longest = "0-8," * 49 + "9-12"
    assert len(longest) == HOURS_CHARS == 200
    assert read(hours=longest) == (Wishes(hours=longest), {})
    assert read(hours=f"{longest}3")[1] == {"hours": "at most 200 characters"}


def test_a_site_is_needed() -> None:
    for fields in ({}, {"site": " "}):
        faults: dict[str, str] = {}
        assert read_site(fields, Allowed(), faults) == ""
        assert faults == {"site": "the URL of the site is needed, such as https://www.example.org/"}
    faults = {}
    assert read_site({"site": "ftp://h/"}, Allowed(), faults) == "" and list(faults) == ["site"]


def test_an_address_may_be_so_long() -> None:
    longest = "a@" + ".".join(["b" * 62] * 4)
    longest += "c" * (CONTACT_CHARS - len(longest))
    assert len(longest) == 254 and is_mail_address(longest) and not is_mail_address(f"a{longest}")


def test_no_time_zone_and_one_that_there_is_are_no_fault() -> None:
    assert timezone_fault("") == timezone_fault("Europe/Amsterdam") == ""
    assert timezone_fault("Nowhere") == "'Nowhere' is no time zone, such as Europe/Amsterdam"


def test_a_machine_without_time_zones_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoneinfo

    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert "tzdata" in timezone_fault("Nowhere")
