"""What doc/messages.md explains is said by the code."""

from __future__ import annotations

import re

from tests.support.documents import ROOT

PAGE = (ROOT / "doc" / "messages.md").read_text(encoding="utf-8")
_ELSEWHERE = frozenset(
    {
        "Access denied",
        "Couldn't listen on …: [Errno 98] Address already in use",
        "…/tls/ca.pem: No such file or directory",
    }
)
"""The database server, Twisted and the system say it."""
LEAST = 25
"""Rows that are looked at, or this test looks at the wrong thing."""


def spoken() -> str:
    """The code: strings as they are joined, and what is filled in left out."""
    files = (ROOT / "lcc").rglob("*.py")
    code = "\n".join(re.sub(r'"\s*\n?\s*f?"', "", path.read_text(encoding="utf-8")) for path in files)
    return re.sub(r"\{[^{}]*\}", "…", code)


def parts_of(text: str) -> list[str]:
    """What stands between that which differs (``…``, a number ``N``)."""
    return [part for part in map(str.strip, re.split(r"…|\bN\b", text)) if part]


def test_each_message_is_in_the_code() -> None:
    code = spoken()
    said = [text for text in re.findall(r"^\| `([^`]+)`", PAGE, re.MULTILINE) if text not in _ELSEWHERE]
    assert len(said) >= LEAST
    for text in said:
        for part in parts_of(text):
            assert part in code, f"nobody says {part!r} ({text})"


_QUOTED = re.compile(r"`([A-Z][a-z]+ [^`]* [^`]*)`")
"""A sentence: what a log says."""
_NO_MESSAGES = frozenset({"Recovered position: UUID:SEQNO"})
"""MariaDB says it."""


def test_messages_that_other_pages_quote_are_in_the_code() -> None:
    code = spoken()
    found = 0
    for page in sorted((ROOT / "doc").glob("*.md")):
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for quoted in _QUOTED.findall(text):
            found += 1
            for part in [] if quoted in _NO_MESSAGES | _ELSEWHERE else parts_of(" ".join(quoted.split())):
                assert part in code, f"{page.name}: nobody says {part!r} ({quoted})"
    assert found >= LEAST
