"""What doc/internal-wires.md says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from lcc.protocols import uns_qm, work
from lcc.protocols.hello import INTERNAL_LIMITS, Hello, read_hello
from lcc.protocols.xmlfeed import Start, XmlFeed

TEXT = (Path(__file__).parents[2] / "doc" / "internal-wires.md").read_text(encoding="utf-8")


def test_every_message_is_explained() -> None:
    for vocabulary in (uns_qm.FROM_UNS, uns_qm.FROM_QM, work.DOWN, work.UP):
        for tag in vocabulary._kinds:
            assert f"| `{tag}` |" in TEXT or f"`<{tag}/>`" in TEXT


def test_what_a_person_types_is_understood() -> None:
    typed = re.findall(r"```xml\n(.*?)```", TEXT, re.DOTALL)[-1]
    stream, fetch = [event for event in XmlFeed(INTERNAL_LIMITS).receive(typed.encode()) if isinstance(event, Start)]
    assert read_hello(stream.name, stream.attributes) == Hello("botm", "me")
    assert isinstance(work.DOWN.read(fetch.name, fetch.attributes), work.Fetch)
