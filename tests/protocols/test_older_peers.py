"""Peers of version 0.1.0 on the internal wires: what they say is understood, and what is said to them has all that
they need.  ``tests/integration/test_upgrades.py`` has their processes; this has every message.
"""

from __future__ import annotations

import attrs
import pytest

from lcc.protocols import hello, uns_qm, work
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import INTERNAL_LIMITS
from lcc.protocols.xmlfeed import NAMESPACE, End, XmlFeed

FORMER = {
    "absorbed": ("code epoch number", "text"),
    "capacity": ("fetches", "paused trouble"),
    "checked": ("file ok", ""),
    "damage": ("pid", "number"),
    "delete": ("file id machine", ""),
    "deleted": ("id", ""),
    "done": (
        "code generation id key number pid",
        "charset detail etag file headers machine md5 mimetype modified ms revalidate size status unchanged url wire",
    ),
    "drop": ("machine", ""),
    "end": ("count", ""),
    "fetch": (
        "generation id key lease_seconds pid roots url",
        "attempt etag insecure mimetype modified private sent_ms start_seconds stored stored_size",
    ),
    "gone": ("machine", ""),
    "intact": ("upto", ""),
    "machine": (
        "name role",
        "acked capacity clock_ms content epoch machine "
        "names_upto numbers_upto run suspect_from suspect_upto version via",
    ),
    "mark": ("change epoch", ""),
    "names": ("upto", ""),
    "newepoch": ("epoch", ""),
    "noted": ("pid", "number"),
    "paused": ("paused", ""),
    "ping": ("", ""),
    "ready": ("", ""),
    "recorded": ("number", ""),
    "robots": ("count told", ""),
    "running": ("generation id key lease_seconds pid", ""),
    "set": ("answered connseq epoch errors_upto full number pid time", "wantid"),
    "settled": ("", ""),
    "stream": (
        "name role",
        "acked capacity clock_ms content epoch machine names_upto numbers_upto run suspect_from suspect_upto version",
    ),
    "verify": ("file md5 size", ""),
}
"""Tag -> the attributes that version 0.1.0 always says, and wants; those that it may leave out."""
KINDS: dict[str, type[Flat]] = {
    kind.TAG: kind
    for module in (hello, uns_qm, work)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Flat) and kind.TAG
}


def wire_names(kind: type[Flat]) -> dict[str, attrs.Attribute[object]]:
    return {field.metadata.get("wire", field.name): field for field in attrs.fields(kind)}


def value_of(field: attrs.Attribute[object]) -> str:
    return "yes" if "bool" in str(field.type) else "7"


def read(tag: str, attributes: dict[str, str], *, plain: bool) -> Flat:
    """As it comes over a wire, by the quick way of frequent messages or by the parser."""
    kind = KINDS[tag]
    vocabulary = Vocabulary(kind, often=[kind])
    feed = XmlFeed(INTERNAL_LIMITS)
    feed.receive(f'<l:stream xmlns:l="{NAMESPACE}">'.encode())
    if plain:
        feed.spellings = vocabulary.spellings
    said = "".join(f' {name}="{value}"' for name, value in attributes.items())
    events = feed.receive(f"<{tag}{said}/>".encode())
    (message,) = vocabulary.messages([event for event in events if not isinstance(event, End)])
    return message


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("tag", FORMER)
def test_what_an_older_peer_says_is_understood(tag: str, plain: bool) -> None:
    always, others = (names.split() for names in FORMER[tag])
    fields = wire_names(KINDS[tag])
    for said in (always, [*always, *others]):
        message = read(tag, {name: value_of(fields[name]) for name in said}, plain=plain)
        for name, field in fields.items():
            found = getattr(message, field.name)
            if name not in said:
                assert found == field.default, f"<{tag}> has got {name}, which nobody has said"
            else:
                assert found in (7, "7", True, "yes")


@pytest.mark.parametrize("tag", FORMER)
def test_what_is_said_to_an_older_peer_has_all_that_it_wants(tag: str) -> None:
    always, _ = (names.split() for names in FORMER[tag])
    fields = wire_names(KINDS[tag])
    least = read(tag, {name: value_of(fields[name]) for name in always}, plain=False)
    for name in always:
        assert f" {name}=" in least.to_xml()


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("tag", KINDS)
def test_what_a_newer_peer_says_besides_is_ignored(tag: str, plain: bool) -> None:
    said = {name: value_of(field) for name, field in wire_names(KINDS[tag]).items()}
    expected = read(tag, said, plain=plain)
    later = {"later": "&lt;x&gt;", **said, "after": "1"}
    assert read(tag, later, plain=plain) == expected
