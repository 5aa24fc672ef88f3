"""The fields that are filled in: the same ones in pages, in the HTTP API, and in its document."""

from __future__ import annotations

import json
from typing import Any

import attrs

from lcc.domain.fetches.hours import DAY_SLOTS, hours_text, parse_hours
from lcc.domain.registration.wishes import CONTACT_CHARS, HOURS_CHARS
from lcc.errors import RegistrationRefused
from lcc.model import Proves
from lcc.transport.http.pages import read_form
from lcc.transport.http.replies import HttpError
from lcc.transport.http.server import BodyRequest, text_header

VALUE_CHARS = 5000


@attrs.frozen
class Field:
    """A field of a form.

    :ivar name: in the API, and in what is said of faults.
    :ivar label, hint: for people.
    :ivar kind: of the HTML input.
    :ivar example: shown in the document.
    :ivar listed: values are suggested from the page's list of time zones.
    """

    name: str
    label: str
    hint: str
    kind: str = "text"
    required: bool = False
    complete: str = "off"
    chars_max: int = 100
    example: str = ""
    listed: bool = False


CONTACT = Field(
    "contact",
    "Your mail address",
    "For the operator of the cache to contact you.",
    "email",
    True,
    "email",
    CONTACT_CHARS,
    "webmaster@example.org",
)
SITE = Field(
    "site",
    "Site",
    "The topmost folder that you can put a file into; everything below it can be submitted later. "
    "Without http:// it is taken as https://.",
    "text",
    True,
    "url",
    4000,
    "https://www.example.org/",
)
BANDWIDTH = Field(
    "bandwidth",
    "Bandwidth, in bytes per second",
    "Maximum speed of fetches from your site. Empty: as fast as allowed here.",
    example="1000000",
    chars_max=18,
)
HOURS = Field(
    "hours",
    "Hours",
    "When your site may be fetched from, such as 22-6 or 0-8,12. Empty: always.",
    example="22-6",
    chars_max=HOURS_CHARS,
)
TIMEZONE = Field(
    "timezone",
    "Time zone of these hours",
    "For example Europe/Amsterdam. Empty: that of the cache.",
    example="Europe/Amsterdam",
    listed=True,
)
PRIORITY = Field("priority", "Priority", "Higher priorities are fetched first.", example="0", chars_max=1)
PID = Field(
    "pid",
    "Number of the provider",
    "As shown when it was registered.",
    required=True,
    example="7",
    chars_max=10,
)
PASSWORD = Field(
    "password", "Its password", "", "password", True, "current-password", 1024, "0123456789abcdef0123456789abcdef"
)
ROOT = attrs.evolve(SITE, label="URL of one of its roots", hint="Any one; the file must be put into each of them.")

FORMS: dict[Proves, tuple[Field, ...]] = {
    Proves.PROVIDER: (CONTACT, SITE, BANDWIDTH, HOURS, TIMEZONE, PRIORITY),
    Proves.ROOT: (PID, PASSWORD, SITE),
    Proves.PASSWORD: (PID, ROOT),
}
"""What has to be filled in for what."""
HOUR_BOXES = tuple(f"hour-{hour}" for hour in range(DAY_SLOTS))
"""The boxes of a page for the hours of a day."""


def form_fields(request: BodyRequest) -> dict[str, str]:
    """What a form that was sent has in its fields.

    :raises HttpError: it is no such form.
    """
    return _checked(read_form(request))


def take_boxes(fields: dict[str, str]) -> None:
    """Make the boxes that are ticked the text of the field ``hours``; none is as all: at any time."""
    ticked = [hour for hour, box in enumerate(HOUR_BOXES) if fields.pop(box, "")]
    if ticked:
        fields["hours"] = hours_text(sum(1 << hour for hour in ticked))


def hours_ticked(text: str) -> frozenset[int]:
    """The boxes that stand for hours."""
    try:
        mask = parse_hours(text) if text else 0
    except ValueError:
        mask = 0
    return frozenset(hour for hour in range(DAY_SLOTS) if mask >> hour & 1)


def json_fields(request: BodyRequest) -> dict[str, str]:
    """The members of a JSON object that was sent, numbers as text; null and false are none.

    :raises HttpError: it is none, or holds something else.
    """
    kind = (text_header(request, "content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, "the body must be JSON (Content-Type: application/json)")
    try:
        given: Any = json.loads(request.body())
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(given, dict):
        raise HttpError(400, "the body must be a JSON object")
    fields: dict[str, str] = {}
    faults: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, str):
            fields[name] = value
        elif value is True:
            fields[name] = "yes"
        elif isinstance(value, int) and value is not False:
            fields[name] = str(value)
        elif value is not None and value is not False:
            faults[name[:80]] = "must be a string or a whole number"
    if faults:
        raise RegistrationRefused("faults", "invalid request", faults)
    return _checked(fields)


def check_names(fields: dict[str, str], *names: str) -> None:
    """
    :raises RegistrationRefused: there is a field of another name.
    """
    faults = {name[:80]: "no such field" for name in fields if name not in names}
    if faults:
        raise RegistrationRefused("faults", "invalid request", faults)


def _checked(fields: dict[str, str]) -> dict[str, str]:
    faults = {
        name[:80]: f"at most {VALUE_CHARS} characters" for name, value in fields.items() if len(value) > VALUE_CHARS
    }
    if faults:
        raise RegistrationRefused("faults", "invalid request", faults)
    return fields
