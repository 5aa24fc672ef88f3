"""The probe: a page that is accepted and never cached is an error, not silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lcc_site import LccSite

from tests.benchmarks.conftest import BENCHMARKS

IMPATIENT = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
import probe
probe.PAGE_SECONDS_MAX = 0.5
react(lambda *arguments: Deferred.fromCoroutine(probe.main(*arguments)), sys.argv[1:])
"""


@pytest.mark.long
def test_a_page_that_is_never_cached_ends_the_probe(tmp_path: Path) -> None:
    site = LccSite(tmp_path / "lcc", None, roles=("uns", "qm"))  # nobody fetches
    site.add_providers({1: "http://127.0.0.1:9/"})
    try:
        site.start()
        command = [sys.executable, "-c", IMPATIENT, site.config, site.port, "1", "1", "0.05", tmp_path / "log", 1]
        done = subprocess.run([str(part) for part in command], cwd=BENCHMARKS, capture_output=True, timeout=60)
    finally:
        site.stop()
    assert done.returncode == 1
    assert b"NeverCached" in done.stderr
