"""Takes the pictures of ``doc/search.md`` from a search that runs and is open::

python -m tests.search_pages.pictures http://127.0.0.1:9800 'QUERY' doc/pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from tests.support.chromium import Chromium

SHAPES = {
    "search-light": (1280, 900, False, False),
    "search-dark": (1280, 900, True, False),
    "search-phone": (360, 800, True, True),
}
"""Name -> width, height, dark, phone."""


def main(address: str, query: str, folder: str) -> None:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as kept:
        browser = Chromium(Path(kept))
        try:
            for shape, (width, height, dark, phone) in SHAPES.items():
                browser.dark(dark)
                browser.size(width, height, phone=phone)
                browser.go(f"{address}/search?q={quote(query)}")
                browser.picture(Path(folder) / f"{shape}.png", whole=False)
        finally:
            browser.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
