"""What those who register may wish for, and what they must say of themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from lcc.domain.fetches.hours import DAY_SLOTS, parse_hours
from lcc.domain.registration.sites import site_folder
from lcc.domain.timezones import NO_PLACES, timezone_fault
from lcc.errors import UrlError
from lcc.model import Wishes
from lcc.numbers import parse_number

HOURS_CHARS = 200
CONTACT_CHARS = 254
PRIORITIES = ("0", "1", "2")

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*").fullmatch
_BANDWIDTH_MAX = 10**18 - 1


@attrs.frozen
class Allowed:
    """What the operator lets them have.

    :ivar bandwidth_max: bytes per second; 0: any, and none at all.
    :ivar priority_max: the highest priority.
    :ivar any_port: sites may have other ports than the usual ones.
    :ivar slots: of the LCC's period of hours.
    """

    bandwidth_max: int = 0
    priority_max: int = 0
    any_port: bool = False
    slots: int = DAY_SLOTS


def is_mail_address(text: str) -> bool:
    """Whether this is one that mail can be sent to, without anything but ASCII in it."""
    return len(text) <= CONTACT_CHARS and _ADDRESS(text) is not None


def read_contact(fields: Mapping[str, str], faults: dict[str, str]) -> str:
    """The mail address of who registers.

    :param faults: gets what is wrong with it.
    """
    contact = fields.get("contact", "").strip()
    if not is_mail_address(contact):
        faults["contact"] = "a mail address is needed, such as webmaster@example.org"
    return contact


def read_site(fields: Mapping[str, str], allowed: Allowed, faults: dict[str, str]) -> str:
    """The folder of the site, or one with a fault; without a scheme it is one of https."""
    text = fields.get("site", "").strip()
    if not text:
        faults["site"] = "the URL of the site is needed, such as https://www.example.org/"
        return ""
    try:
        return site_folder(text if "://" in text else f"https://{text.lstrip('/')}", allowed.any_port)
    except UrlError as error:
        faults["site"] = error.text
        return ""


def read_wishes(fields: Mapping[str, str], allowed: Allowed, faults: dict[str, str]) -> Wishes:
    """The wishes; what is not said, or wrong, is what one gets without a wish."""
    return Wishes(
        bandwidth_bytes=_bandwidth(fields.get("bandwidth", "").strip(), allowed.bandwidth_max, faults),
        hours=_hours(fields.get("hours", "").strip(), allowed.slots, faults),
        timezone=_timezone(fields.get("timezone", "").strip(), faults),
        priority=_priority(fields.get("priority", "").strip(), allowed.priority_max, faults),
    )


def _bandwidth(text: str, maximum: int, faults: dict[str, str]) -> int | None:
    if not text:
        return maximum or None
    try:
        bandwidth = parse_number(text, _BANDWIDTH_MAX, 1)
    except ValueError:
        faults["bandwidth"] = "a whole number of bytes per second, at least 1; empty: as much as is allowed"
        return maximum or None
    if not maximum or bandwidth <= maximum:
        return bandwidth
    faults["bandwidth"] = f"at most {maximum} bytes per second are allowed here"
    return maximum


def _hours(text: str, slots: int, faults: dict[str, str]) -> str:
    if len(text) > HOURS_CHARS:
        faults["hours"] = f"at most {HOURS_CHARS} characters"
        return ""
    try:
        parse_hours(text, slots)
    except ValueError as error:
        faults["hours"] = str(error)
        return ""
    return text


def _timezone(text: str, faults: dict[str, str]) -> str:
    fault = timezone_fault(text)
    if text in NO_PLACES:
        fault = f"{text!r} is not the time zone of a place, such as Europe/Amsterdam"
    if fault:
        faults["timezone"] = fault
        return ""
    return text


def _priority(text: str, maximum: int, faults: dict[str, str]) -> int:
    if not text:
        return 0
    if text not in PRIORITIES or PRIORITIES.index(text) > maximum:
        faults["priority"] = f"0 to {maximum}" if maximum else "only 0 is allowed here"
        return 0
    return PRIORITIES.index(text)
