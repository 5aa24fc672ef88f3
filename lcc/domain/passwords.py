"""The password that a file holds: one rule for all tools and roles."""

from __future__ import annotations


def password_in(text: str) -> str:
    """The first line, without white space around it (and without a byte order mark): an editor adds both unseen.

    :returns: '' if there is none there.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    return lines[0].strip() if lines else ""
