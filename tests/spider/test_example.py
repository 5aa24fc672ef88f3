"""The extractor of doc/spider.md, in a folder of the path, as somebody would copy it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = """
from lcc.model.spider.links import ExtractionLimits
from lcc.spider.extractors.extraction import Extraction
from lcc.spider.extractors.found import Document
from lcc.spider.extractors.registry import extractors_by_type

text = b"See http://h.example/a (and <https://h.example/b>)."
extraction = Extraction(extractors_by_type(), ExtractionLimits())
for link in extraction.links(Document("http://h.example/", "text/plain", "", (), text)).links:
    print(link.url, link.element)
"""


def test_addresses_in_plain_text_are_links(tmp_path: Path) -> None:
    page = (ROOT / "doc" / "spider.md").read_text()
    (code,) = re.findall(r"```python\n(\"\"\"lcc/spider/extractors/.*?)```", page, re.DOTALL)
    folder = tmp_path / "lcc" / "spider" / "extractors" / "plugins"
    folder.mkdir(parents=True)
    (folder / "plain.py").write_text(code)
    environment = dict(os.environ, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == ["http://h.example/a text", "https://h.example/b text"]
