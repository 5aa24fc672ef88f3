"""What this machine can do, before the soak."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from lcc_site import LccSite

from soak.plan import HERE, PROVIDERS
from soak.samples import ACCEPTED, read_sent

FETCH_SECONDS_MAX = 600.0


def measured_rate(folder: Path, database_url: str | None, web: str, pages: int) -> float:
    """Pages a second that this machine does, on an LCC of its own: all of them once, then all of them changed, which
    counts.  A page that is replaced costs more than a new one: its old file is to be removed."""
    site = LccSite(folder, database_url, {"qm": {"delete_grace": 1}})
    site.add_providers({pid: f"{web}p{pid}/" for pid in range(1, PROVIDERS + 1)})
    try:
        site.start()
        _fetched_in(site, folder / "sent-new", web, pages)
        seconds, fetched = _fetched_in(site, folder / "sent-changed", web, pages)
        return fetched / seconds
    finally:
        site.stop()


def _fetched_in(site: LccSite, log: Path, web: str, pages: int) -> tuple[float, int]:
    """Tell of so many pages at once; the seconds from the first telling until all are fetched, and how many they are.

    That the process of the load has to start first is none of the LCC's time.
    """
    before, deadline = site.changes(), time.monotonic() + FETCH_SECONDS_MAX
    load = [sys.executable, HERE / "load.py", str(site.port), web, str(PROVIDERS), str(pages), "1", str(pages)]
    subprocess.run([*load, log], check=True)
    sent = read_sent(log)
    total = sum(each.count for each in sent if each.code == ACCEPTED)
    if total != sum(each.count for each in sent):
        raise SystemExit("the rate cannot be measured: sets were not accepted")
    while site.changes() < before + total:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {site.changes() - before} of {total} pages in {FETCH_SECONDS_MAX:.0f} s")
        time.sleep(0.05)
    return time.time() - min(each.time for each in sent), total
