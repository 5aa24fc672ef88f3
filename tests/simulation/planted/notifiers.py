"""Bugs in what becomes of what others notice: notifiers, hints, polls."""

from __future__ import annotations

from .bug import Bug

NOTIFIERS = [
    Bug(
        "notice-answered-early",
        "P1: a notifier's set is answered before it is on stable storage",
        "lcc/roles/uns/notifiers/connection.py",
        "hub.deliver(notifier, number, entry)\n                return",
        "hub.deliver(notifier, number, entry)\n                notifier.outcomes[number] = Verdict(0)",
    ),
    Bug(
        "notice-not-sent-again",
        "P2: what a notifier has sent, and has no answer, is not sent on the next connection",
        "lcc/roles/notifier.py",
        "self._unsent = deque(self._told.values())",
        "self._unsent = deque(self._unsent)",
    ),
    Bug(
        "notice-number-kept",
        "P5: a notifier keeps an order number on another connection, while a set with it comes through another UNS",
        "lcc/roles/uns/notifiers/connection.py",
        "held = message.held if message.held == drawn.get(pid) else 0",
        "held = message.held",
    ),
    Bug(
        "hint-revives",
        "P5: somebody's feed brings back what the site has deleted",
        "lcc/domain/notices/words.py",
        "(not counted and self.is_the_sites)",
        "(not counted and False)",
    ),
    Bug(
        "hint-outlives-the-deletion",
        "P5: a page that a feed had named before its site did stays when the site deletes it",
        "lcc/domain/notices/words.py",
        "self.mask &= ~_HINTS",
        "pass",
    ),
    Bug(
        "poll-is-a-page",
        "P5: a document that is only polled is recorded as a page of its provider",
        "lcc/storage/queue/results/record.py",
        "cached.update(connseq=connseq, source=source, words=words)\n    return",
        "cached.update(connseq=connseq, source=TOLD, words=words)\n    return",
    ),
    Bug(
        "poll-is-counted",
        "P8: a document that is only polled is on its provider's books",
        "lcc/storage/queue/results/record.py",
        "    if counted:\n        stats.files_used += appears",
        "    if True:\n        stats.files_used += appears",
    ),
    Bug(
        "poll-during-a-fetch",
        "P5: a poll during a fetch that began before it is forgotten",
        "lcc/domain/notices/words.py",
        "        if self.waits:\n            return self.answer(Action.AGAIN)\n",
        "        if self.waits:\n            return self.answer(Action.OLDER)\n",
    ),
    Bug(
        "hint-raises-the-number",
        "P5: a hint counts as the latest word of the site's list",
        "lcc/domain/notices/words.py",
        "        self.mask |= self.source\n        if counted:\n",
        "        self.mask |= self.source\n        self.numbers[2] += 1 << 30\n        if counted:\n",
    ),
    Bug(
        "notice-applied-twice",
        "P5: a notifier's set, a poll's too, is applied again when it comes through another UNS",
        "lcc/storage/queue/intake/said_sets.py",
        "        return said is not None and said.number in self._ranges[_stream(said)]",
        "        return False",
    ),
    Bug(
        "full-set-takes-listed",
        "P5: a full set takes away what is listed or pushed, too",
        "lcc/domain/notices/words.py",
        "    left, numbers = standing.source & ~_TOLD, (",
        "    left, numbers = 0, (",
    ),
    Bug(
        "retract-takes-all",
        "P5: what one source takes back is gone, though another one names it",
        "lcc/domain/notices/words.py",
        "        void = self._take_away(own)",
        "        void = self._take_away(_SITE)",
    ),
    Bug(
        "deletion-of-one-source",
        "P5: a deletion takes back its own source's word only",
        "lcc/domain/notices/words.py",
        "not self._take_away(_SITE):",
        "not self._take_away(self.source):",
    ),
]
