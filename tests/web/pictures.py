"""Takes the pictures of ``doc/monitor.md`` from a web monitor that runs::

python -m tests.web.pictures http://127.0.0.1:9600 ann PASSWORD-FILE doc/pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.chromium import Chromium

SHAPES = {
    "monitor-light": (1280, 900, False, False),
    "monitor-dark": (1280, 900, True, False),
    "monitor-phone": (390, 1500, False, True),
}
"""Name -> width, height, dark, phone."""


def main(address: str, name: str, password_file: str, folder: str) -> None:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as kept:
        browser = Chromium(Path(kept))
        try:
            browser.go(f"{address}/login")
            browser.type("#name", name)
            browser.type("#password", Path(password_file).read_text(encoding="utf-8").splitlines()[0])
            browser.click("main button")
            for shape, (width, height, dark, phone) in SHAPES.items():
                browser.dark(dark)
                browser.size(width, height, phone=phone)
                browser.go(f"{address}/")
                browser.until("document.querySelector('#live').textContent === 'Live.'")
                browser.picture(Path(folder) / f"{shape}.png", whole=not phone)
        finally:
            browser.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
