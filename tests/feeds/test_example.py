"""The plugin of doc/feeds.md, in a folder of the path, as somebody would copy it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = """<html><head><title>A story</title></head><body><p>Text</p>
<div class="comment odd" id="c1"><span class="author"> Ann </span>
<time datetime="2009-02-13T23:31:30+00:00">then</time>
<p>First <b>comment</b></p><script>x()</script></div>
<div class="comment" id="c2"><p>Größe</p></div><div class="comments">no</div></body></html>"""
RUN = """
import json, sys
from tests.feeds.runs import worked
kept = worked(sys.stdin.buffer.read(), "comments", content_type="text/html; charset=utf-8")
print(json.dumps([kept.stored[0], *kept.items]))
"""


def test_comments_of_a_page_are_a_feed(tmp_path: Path) -> None:
    text = (ROOT / "doc" / "feeds.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    folder = tmp_path / "lcc" / "feeds" / "plugins"
    folder.mkdir(parents=True)
    (folder / "comments.py").write_text(code)
    environment = dict(os.environ, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, input=PAGE.encode(), env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    feed, first, second = json.loads(done.stdout)
    assert feed["feed"] == {"kind": "comments", "title": "A story"}
    assert (first["id"], first["published"], first["authors"]) == ("c1", 1234567890, [{"name": "Ann"}])
    assert first["link"] == "http://feeds.example.org/news/feed.xml#c1"
    assert first["text"] == "Ann then\nFirst comment" and second["text"] == "Größe"
