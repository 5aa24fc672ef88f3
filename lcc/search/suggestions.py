"""Words that were meant, for words that were misspelt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set


def nearest(word: str, texts: Iterable[Set[str]], distance_max: int, in_time: Callable[[], bool]) -> str:
    """The word of these texts that is most like it; of several, that of most texts; empty: none.

    :param distance_max: letters that were left out, added, replaced, or swapped with the next one.
    :param in_time: asked before each step; once it is not, the best so far is it.
    """
    letters = {*word}
    counts: Counter[str] = Counter()
    for words in texts:
        # Each letter that differs is at most one that is not there.
        counts.update(
            each
            for each in words
            if abs(len(each) - len(word)) <= distance_max and len(letters.difference(each)) <= distance_max
        )
        if not in_time():
            break
    best = (distance_max + 1, 0, "")
    for each, count in counts.most_common():
        if not in_time():
            break
        if each != word:
            best = min(best, (distance_of(word, each, distance_max), -count, each))
    return best[2] if best[0] <= distance_max else ""


def distance_of(one: str, other: str, maximum: int) -> int:
    """How many letters differ; two that are swapped count once.  Beyond ``maximum`` it is any number beyond that."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, before, row = before, row, [at]
        for to, wanted in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, last[to - 2] + 1)
            row.append(cost)
        if min(row) > maximum and min(before) > maximum:
            return maximum + 1
    return row[-1]
