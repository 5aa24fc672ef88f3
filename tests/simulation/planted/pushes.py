"""Bugs of the push server."""

from __future__ import annotations

from .bug import Bug

PUSHES = [
    Bug(
        "push-answered-unstored",
        "P1: a push is answered before it is on stable storage",
        "lcc/roles/push/engine.py",
        "        key = await self.ask(storing.addCallback(self._stored, len(submission.urls)))\n",
        "        storing = storing.addCallback(self._stored, len(submission.urls)).addErrback(lambda _: known)\n"
        "        key = known if proven and known is not None else await self.ask(storing)\n",
    ),
    Bug(
        "pushes-forgotten-at-restart",
        "P2: what waits for the UNS when a push server ends is not told by the next one",
        "lcc/storage/push/store.py",
        "    epoch, left_out = claim_epoch(",
        "    txn.execute('UPDATE pushset SET state = 2 WHERE state = 1')\n    epoch, left_out = claim_epoch(",
    ),
    Bug(
        "push-told-is-done",
        "P2: a pushed set counts as told once it is sent, and the UNS has not answered",
        "lcc/roles/push/teller.py",
        "            link.tell(told).addCallback(self._outcome, each)\n",
        "            link.tell(told)\n            self._outcome(NoticeOutcome(each.number), each)\n",
    ),
    Bug(
        "push-without-its-key",
        "a push is told though its key file has something else in it",
        "lcc/domain/push/indexnow.py",
        "    if text == key:\n",
        "    if key in text:\n",
    ),
    Bug(
        "proof-frees-nothing",
        "P2: what waited for the proof of a key is dropped when it is proven",
        "lcc/storage/push/store.py",
        "            for new, (old, _) in zip(_numbers(txn, len(found)), found, strict=True):\n",
        "            for new, (old, _) in zip(_numbers(txn, len(found)), found[:-1], strict=False):\n",
    ),
    Bug(
        "waits-for-a-wrong-clock",
        "P2: a key waits for the time that a wrong clock has given it",
        "lcc/roles/push/engine.py",
        "        if self._clock.seconds() >= self._bound_due:\n",
        "        if self._clock.seconds() < 0:\n",
    ),
]
