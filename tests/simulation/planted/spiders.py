"""Bugs of spiders, and of what they need of others."""

from __future__ import annotations

from ..run import CRAWLS
from .bug import Bug

SPIDERS = [
    Bug(
        "full-set-wipes-found-pages",
        "P5: a full set takes away what only links have led to",
        "lcc/storage/queue/intake/sweep.py",
        "    cached = [row for row in rows if row[1] == CACHED and row[2] & TOLD]",
        "    cached = [(*row[:2], TOLD, *row[3:]) for row in rows if row[1] == CACHED]",
        kind=CRAWLS,
    ),
    Bug(
        "token-before-frontier",
        "P17: the token is committed before the links of its pages",
        "lcc/roles/spider/follower.py",
        "        all_links = await extracted\n",
        "        await self._frontier.commit(FrontierBatch(tokens=tokens), int(self._now()))\n"
        "        all_links = await extracted\n",
        kind=CRAWLS,
    ),
    Bug(
        "base-before-redirect",
        "P16: links are relative to the URL that was asked for, not to the one that answered",
        "lcc/model/spider/links.py",
        "return self.row.fetched_url or self.row.furl or self.row.curl",
        "return self.row.furl or self.row.curl",
        kind=CRAWLS,
    ),
    Bug(
        "robots-5xx-allows",
        "P16: a robots.txt that cannot be read now allows everything",
        "lcc/domain/fetches/robots_rules.py",
        "return ALL if 400 <= status < 500 and status != _TOO_MANY else NONE",
        "return ALL",
        kind=CRAWLS,
    ),
    Bug(
        "stale-claim-accepted",
        "P17: a spider whose hosts were taken over goes on with them",
        "lcc/storage/spider/claims.py",
        "    _remove(txn, run)\n    return True",
        '    txn.execute("UPDATE spclaim SET run = 0 WHERE run = ?", [run])\n    return True',
        kind=CRAWLS,
    ),
]
