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
        "lcc/domain/words.py",
        "(not counted and self.is_the_sites)",
        "(not counted and False)",
    ),
    Bug(
        "hint-outlives-the-deletion",
        "P5: a page that a feed had named before its site did stays when the site deletes it",
        "lcc/domain/words.py",
        "self.mask &= ~_HINTS",
        "pass",
    ),
    Bug(
        "poll-is-a-page",
        "P5: a document that is only polled is recorded as a page of its provider",
        "lcc/storage/queue/record.py",
        "cached.update(connseq=connseq, source=source, words=words)\n    return",
        "cached.update(connseq=connseq, source=TOLD, words=words)\n    return",
    ),
    Bug(
        "poll-is-counted",
        "P8: a document that is only polled is on its provider's books",
        "lcc/storage/queue/record.py",
        "    if counted:\n        stats.files_used += appears",
        "    if True:\n        stats.files_used += appears",
    ),
    Bug(
        "poll-during-a-fetch",
        "P5: a poll during a fetch that began before it is forgotten",
        "lcc/domain/words.py",
        "        if self.waits:\n            return self.answer(Action.AGAIN)\n",
        "        if self.waits:\n            return self.answer(Action.OLDER)\n",
    ),
]
