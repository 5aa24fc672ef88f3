"""Words of a command line that is shown to be copied into a shell.

URLs, mime types and names in it come from strangers.  What :func:`shell_word` gives is one word, and means nothing
else, in sh, bash and zsh.  No control character is in it: pasted into a terminal it would be a key (ESC, Ctrl-C,
return, the end of a bracketed paste).  tests/packaging/test_shown_commands.py finds commands shown without it.
"""

from __future__ import annotations

import re

# Not "=" in front: zsh takes =ls for the path of ls.  Not "~" anywhere.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*", re.ASCII).fullmatch
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def shell_word(text: object) -> str:
    """The text as a shell takes it for one word; as it is, where it means nothing else to a shell.

    Control characters, and others that nobody sees, are spelled ``\\xNN`` in ``$'…'`` (bash, zsh, POSIX of 2024); an
    older sh gets the spelling itself instead, which does no harm either: there is no quote in it that could end it.
    """
    word = str(text)
    if _PLAIN(word):
        return word
    if _UNSEEN.search(word) is None:
        return "'" + word.replace("'", "'\"'\"'") + "'"
    escaped = word.replace("\\", r"\x5c").replace("'", r"\x27")
    return "$'" + _UNSEEN.sub(_spell, escaped) + "'"


def _spell(match: re.Match[str]) -> str:
    char = match[0]
    # A byte of a file's name that is no UTF-8 (os.fsdecode) is that byte.
    data = char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
    return "".join(rf"\x{byte:02x}" for byte in data)


def shell_command(*words: object) -> str:
    """A command line of these words."""
    return " ".join(map(shell_word, words))
