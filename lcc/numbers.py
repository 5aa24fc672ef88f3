"""Whole numbers as peers write them.

Every number in the text of a peer (header fields, attributes, tokens, forms) is read by :func:`parse_number`.
Python's ``int()`` takes more than any protocol means (``1_0``, `` 7``, ``+7``, digits of other scripts), raises at
more than 4,300 digits, and below that takes a time that grows with their square.  ``float()`` takes ``nan``, ``inf``
and ``1e999``.  tests/packaging/test_numbers.py finds bare calls of them.
"""

from __future__ import annotations

import re

INT64_MAX = 2**63 - 1
"""The greatest number that databases hold; for what has no bound of its own."""
NUMBER_CHARS_MAX = 20
"""More than a sign and 64 bits never have; leading zeros count."""
_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII).fullmatch


def parse_number(text: str, maximum: int, minimum: int = 0) -> int:
    """The whole number that a text says in ASCII digits, with a minus in front where it may be negative.

    :raises ValueError: it is none, or out of bounds.
    """
    if len(text) > NUMBER_CHARS_MAX or not _NUMBER(text) or (minimum >= 0 and text[0] == "-"):
        raise ValueError(f"{text[:80]!r} is no whole number")
    number = int(text)
    if not minimum <= number <= maximum:
        raise ValueError(f"{text[:80]!r} is not from {minimum} to {maximum}")
    return number
