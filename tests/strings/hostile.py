"""Strings that have broken programs before, and a strategy that finds more."""

from __future__ import annotations

from hypothesis import strategies as st

FOLDED = (
    # Each of a group is another text; some collation, or some case or normal form, makes two of them one.
    (
        "a",
        "A",
        "\u00e4",
        "a\u0308",
        "\u00c4",
        "\u0430",
        "\uff41",
        "a ",
        " a",
        "a\u00a0",
        "a\u200b",
        "a\u00ad",
        "\u00aa",
    ),
    ("ss", "SS", "\u00df", "\u1e9e", "\u017f\u017f"),
    ("i", "I", "\u0130", "\u0131", "i\u0307"),
    ("k", "K", "\u212a"),
    ("\u03c3", "\u03c2", "\u03a3"),
    ("1", "\u00b9", "\u2460", "\u0661", "\uff11", "1.0", "01"),
    ("\ufb01", "fi"),
    ("\u00e9", "e\u0301", "e"),
    ("\uac00", "\u1100\u1161"),
    ("\U0001f600", "\U0001f601", "\U0001f1e9\U0001f1ea", "\U00020000"),
    ("x", "x\t", "x\n", "x\r\n", "x\r", "x\u2028", "x\u0085"),
)
PLAIN = (
    "'", "''", '"', "\\", "\\\\", "\\'", "\\n", "%", "%s", "%%", "%(a)s", "?", "??", "{}", "{0}", "`", ";", "--", "#",
    "' OR '1'='1", "'; DROP TABLE qdb; --", '" OR ""="', "\\' OR 1=1 -- ", "1; SELECT pg_sleep(9)", "/*!50000 x */",
    "<b>&amp;</b>", "&lt;", "]]>", "<!--", "<![CDATA[x]]>", "&#0;", "&#x1F;", "</url>", "'/><x y='", "<?xml?>",
    "null", "NULL", "None", "nan", "true", "0", "-1", "1e309", "[]", "\\u0000", "\\ud800", "\\x00",
    "../../etc/passwd", "..", ".", "/", "//", "C:\\con", "~root", "$HOME", "$(id)", "`id`", "|", "*", "[a-z]",
    "http://user:pw@other/", "javascript:alert(1)", "data:,x", "\u202egnp.exe", "\u200f", "\u2066x\u2069", "\ufeff",
    "\ue000", "\ufdd0", "\U0010ffff", "\U0010fffd", "\ufffd", "\u0600", "\u0e49" * 20, "a" + "\u0301" * 50,
    "\x7f", "\x80", "\x85", "\x9b31m", "\u2028", "\u2029", "x" * 300, "\u00e4" * 300, "\U0001f600" * 200,
)  # fmt: skip
TEXTS: tuple[str, ...] = tuple(dict.fromkeys([text for group in FOLDED for text in group] + list(PLAIN)))
"""What XML can carry."""

UNSPEAKABLE = (
    "\x00",
    "a\x00b",
    "\x01",
    "\x0b",
    "\x1b[31m",
    "\x1f",
    "\ufffe",
    "\uffff",
    "\ud800",
    "\udfff",
    "\udcc3\udca4",
)
"""What XML cannot carry: control characters, two that are none, halves of surrogate pairs."""

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff", min_codepoint=32), max_size=60
)
"""Any text that XML can carry, but for control characters below the blank (some of which it can)."""
