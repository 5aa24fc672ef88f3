"""Packages are compared with a copy of PyPI's advisories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_advisories.py"
ADVISORY = """
id: PYSEC-2026-1
modified: 2026-05-01T10:00:00Z
aliases: [CVE-2026-1]
{more}
affected:
- package: {{ecosystem: PyPI, name: Some.Package}}
  ranges:
  - type: GIT
    events: [{{introduced: '0'}}]
  - type: ECOSYSTEM
    events: [{events}]
  versions: [{versions}]
"""


def audited(folder: Path, version: str, events: str, versions: str = "", more: str = "") -> tuple[int, str]:
    """Exit code and output for a package of this version, and one advisory."""
    package = folder / "site" / "some_package-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some_package\nVersion: {version}\n")
    vulns = folder / "advisories" / "vulns" / "some-package"
    vulns.mkdir(parents=True)
    (vulns / "PYSEC-2026-1.yaml").write_text(ADVISORY.format(events=events, versions=versions, more=more))
    command = [sys.executable, SCRIPT, folder / "advisories", folder / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("version", "events", "versions", "affected"),
    [
        ("1.9", "{introduced: '0'}, {fixed: '1.10'}", "", True),
        ("1.10", "{introduced: '0'}, {fixed: '1.10'}", "", False),
        ("2.1", "{introduced: '0'}, {fixed: '1.10'}, {introduced: '2'}, {last_affected: '2.1'}", "", True),
        ("2.2", "{introduced: '2'}, {last_affected: '2.1'}", "", False),
        ("3", "{introduced: '2'}", "", True),
        ("1", "{introduced: '2'}", "'1', '0.9'", True),
    ],
)
def test_an_affected_version_is_named(
    tmp_path: Path, version: str, events: str, versions: str, affected: bool
) -> None:
    code, text = audited(tmp_path, version, events, versions)
    assert code == affected, text
    assert (f"some-package {version}: PYSEC-2026-1 CVE-2026-1" in text) is affected
    assert "1 packages, 1 advisories of these; the newest is of 2026-05-01" in text


def test_a_withdrawn_advisory_does_not_count(tmp_path: Path) -> None:
    code, _ = audited(tmp_path, "1", "{introduced: '0'}", more="withdrawn: 2026-06-01T10:00:00Z")
    assert code == 0


def test_no_advisory_at_all_is_no_good_news(tmp_path: Path) -> None:
    (tmp_path / "advisories" / "vulns").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    command = [sys.executable, SCRIPT, tmp_path / "advisories", tmp_path / "site"]
    assert subprocess.run(command, capture_output=True).returncode == 1
