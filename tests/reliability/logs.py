"""What no log of a role may say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

TRACEBACKS = ("Traceback", "Unhandled")
FAULTS = (*TRACEBACKS, "#error]", "#critical]")
_BEFORE, _AFTER = 300, 2500


def faults_in_logs(names: Iterable[str], log: Callable[[str], str], words: Sequence[str] = FAULTS) -> Iterator[str]:
    """Each process whose log has one of these words, and what it says there."""
    for name in names:
        text = log(name)
        for word in words:
            if word in text:
                at = text.index(word)
                yield f"{name}: {text[max(0, at - _BEFORE) : at + _AFTER]}"
