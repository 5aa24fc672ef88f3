"""PyPI's reader, for feed_polls.py: ``reader_peer.py DATABASE LIST``.  Runs in the environment of the peers.

Prints how many feeds were read, how many of them had news, and the CPU seconds of the update.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from reader import make_reader


def main(database: str, listing: str) -> None:
    """Update all."""
    reader = make_reader(database)
    for url in Path(listing).read_text().split():
        reader.add_feed(url, exist_ok=True)
    read = changed = 0
    begun = time.process_time()
    for result in reader.update_feeds_iter(scheduled=False):
        if isinstance(result.value, Exception):
            raise result.value
        read += 1
        changed += result.value is not None and bool(result.value.new or result.value.modified)
    print(read, changed, time.process_time() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])
