"""``make sbom``: what an installation consists of."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def name_of(requirement: str) -> str:
    """As indexes of packages have it."""
    return re.sub("[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


@pytest.mark.long
def test_it_names_all_that_the_lcc_requires() -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True, timeout=900)
    text = (ROOT / "build" / "sbom.json").read_text(encoding="utf-8")
    bom = json.loads(text)
    assert bom["bomFormat"] == "CycloneDX" and "file://" not in text and str(ROOT) not in text
    found = [name_of(component["name"]) for component in bom["components"]]
    assert len(found) == len(set(found)) and all(component["version"] for component in bom["components"])
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    version = setup["metadata"]["version"]
    newest = max((ROOT / "dist").glob("lcc-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    assert newest.name.split("-")[1] == version, "the wheel that was installed"
    assert [each["version"] for each in bom["components"] if name_of(each["name"]) == "lcc"] == [version]
    extras = [setup["options.extras_require"][name] for name in ("codings", "lucene", "search", "text", "warc")]
    lines = "\n".join([setup["options"]["install_requires"], *extras]).splitlines()
    required = {name_of(line) for line in lines if line.strip() and not line.startswith("#")}
    assert {"lcc", "twisted", "tantivy"} <= required | {"lcc"} <= set(found)
    # Nothing of what tests, checks and documentation need.
    assert not {"pytest", "mypy", "sphinx", "pip"} & set(found)
