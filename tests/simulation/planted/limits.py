"""Bugs of limits: bandwidth, quotas; and of ``ifabsent``."""

from __future__ import annotations

from .bug import Bug

LIMITS = [
    Bug(
        "bandwidth-not-paid-in-a-run",
        "P11: a robot does not wait within a run until what came before is paid for",
        "lcc/roles/bot/run.py",
        "        if fetch.rate:\n",
        "        if fetch.rate < 0:\n",
    ),
    Bug(
        "bandwidth-at-half-price",
        "P11: what was fetched is paid for in half of the time",
        "lcc/domain/fetches/bandwidth.py",
        "return max(allowed, now) + wire_bytes / rate",
        "return max(allowed, now) + wire_bytes / (2 * rate)",
    ),
    Bug(
        "quota-of-files-not-kept",
        "P8: a provider gets one file more than its quota",
        "lcc/domain/notices/quota.py",
        "files >= quota.files_max:",
        "files > quota.files_max:",
    ),
    Bug(
        "quota-counts-the-old",
        "P8: the quota of space counts the content that is replaced, too",
        "lcc/storage/queue/intake/batch.py",
        "            space -= cached.state.length or 0\n",
        "            pass\n",
    ),
    Bug(
        "quota-error-lost",
        "P2: what is refused for a quota is not reported",
        "lcc/storage/queue/intake/batch.py",
        '                self._write.error(pid, key, connseq, refused, "", notice, source=source)\n            elif',
        "                pass\n            elif",
    ),
    Bug(
        "ifabsent-ignored",
        "P2: what is told with ifabsent is fetched again",
        "lcc/domain/notices/absorb.py",
        "if notice.ifabsent and ((cached is not None and cached.cached) or (queued is not None and queued.fetch)):",
        "if notice.ifabsent and queued is not None and queued.fetch:",
    ),
]
