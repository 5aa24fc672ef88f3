"""``lcc-admin resync``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.admin import Lcc

SITE = "http://www.example.org/"
WELL_KNOWN = f"{SITE}.well-known/resourcesync"


def test_a_source_is_read_as_a_sitemap_is(lcc: Lcc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lcc.admin.role_tables._WAIT_SECONDS", 0.1)
    assert lcc.admin("resync", "add", SITE).stdout == f"ordered: sitemap 1: {WELL_KNOWN}\n"
    listed = f"{SITE}capabilitylist.xml"
    assert lcc.rows("resync", "add", listed, "--every", "3600")[0]["url"] == listed
    shown: dict[str, Any] = json.loads(lcc.admin("sitemap", "show", listed, "--json").stdout)
    assert (shown["id"], shown["every_seconds"]) == (2, 3600)
    assert f"{WELL_KNOWN} is sitemap 1 already" in lcc.admin("resync", "add", WELL_KNOWN, code=1).stderr
    assert "URL" in lcc.admin("resync", "add", "nonsense", code=2).stderr
