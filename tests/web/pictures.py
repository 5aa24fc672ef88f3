"""Takes the pictures of ``doc/monitor.md`` from a web monitor that runs::

python -m tests.web.pictures http://127.0.0.1:9600 ann PASSWORD-FILE doc/pictures
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.chromium import Chromium

SHAPES = {
    "monitor-light": (1280, 900, False, False),
    "monitor-dark": (1280, 900, True, False),
    "monitor-phone": (390, 1500, False, True),
}
"""Name -> width, height, dark, phone."""


def take(
    address: str,
    name: str,
    password: str,
    folder: Path,
    pages: Sequence[str] = (),
    shapes: Sequence[str] = tuple(SHAPES),
) -> None:
    """Take those of the overview; or, to look at them, those of these pages.

    :param shapes: of :data:`SHAPES`.
    """
    with tempfile.TemporaryDirectory() as kept:
        browser = Chromium(Path(kept))
        try:
            browser.go(f"{address}/login")
            browser.type("#name", name)
            browser.type("#password", password)
            browser.click("main button")
            for shape in shapes:
                width, height, dark, phone = SHAPES[shape]
                browser.dark(dark)
                browser.size(width, height, phone=phone)
                for page in pages or ["/?span=day"]:
                    browser.go(address + page)
                    browser.until("document.querySelector('#live').textContent.startsWith('Live')")
                    of_page = re.sub(r"[^a-z0-9]+", "-", page) if pages else ""
                    browser.picture(folder / f"{shape}{of_page}.png", whole=bool(pages) or not phone)
        finally:
            browser.stop()


def main(address: str, name: str, password_file: str, folder: str) -> None:
    """Take all of them."""
    password = Path(password_file).read_text(encoding="utf-8").splitlines()[0]
    take(address, name, password, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
