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


def test_each_message_is_in_the_code() -> None:
    files = (ROOT / "lcc").rglob("*.py")
    # Strings as they are joined, and what is filled in left out.
    code = "\n".join(re.sub(r'"\s*\n?\s*f?"', "", path.read_text(encoding="utf-8")) for path in files)
    code = re.sub(r"\{[^{}]*\}", "…", code)
    said = [text for text in re.findall(r"^\| `([^`]+)`", PAGE, re.MULTILINE) if text not in _ELSEWHERE]
    assert len(said) >= LEAST
    for text in said:
        for part in filter(None, map(str.strip, text.split("…"))):
            assert part in code, f"nobody says {part!r} ({text})"
