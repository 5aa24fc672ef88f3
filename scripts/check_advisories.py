"""Compares installed packages with a copy of PyPI's advisories, where the index cannot be asked.

``check_advisories.py ADVISORIES SITE-PACKAGES`` (``make audit ADVISORIES=…``): ADVISORIES is a clone of
https://github.com/pypa/advisory-database.  Exit code 1: a package is affected, or there are no advisories.  A copy
knows nothing of what was found after it was made: the date of its newest advisory is told.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it has no types
from packaging.version import Version


def canonical(name: str) -> str:
    """As the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def in_range(version: Version, events: list[dict[str, str]]) -> bool:
    """Whether a range of OSV's form has a version."""
    affected = False
    for event in events:
        [(kind, text)] = event.items()
        limit = Version(text)
        if kind == "introduced":
            affected = affected or version >= limit
        elif kind == "fixed":
            affected = affected and version < limit
        elif kind == "last_affected":
            affected = affected and version <= limit
    return affected


def affects(advisory: dict[str, Any], name: str, version: str) -> bool:
    """Whether an advisory is about this version of a package."""
    if advisory.get("withdrawn"):
        return False
    for each in advisory.get("affected", []):
        if canonical(each["package"]["name"]) != name:
            continue
        if version in each.get("versions", []):
            return True
        ranges = [found["events"] for found in each.get("ranges", []) if found["type"] == "ECOSYSTEM"]
        if any(in_range(Version(version), events) for events in ranges):
            return True
    return False


def main(advisories: str, site_packages: str) -> int:
    folders = {canonical(path.name): path for path in (Path(advisories) / "vulns").iterdir()}
    installed = {canonical(each.name): each.version for each in distributions(path=[site_packages])}
    looked_at, newest, found = 0, "", []
    for name, version in sorted(installed.items()):
        for path in sorted(folders[name].glob("*.yaml")) if name in folders else []:
            advisory = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
            looked_at, newest = looked_at + 1, max(newest, advisory["modified"][:10])
            if affects(advisory, name, version):
                found.append(f"{name} {version}: {advisory['id']} {' '.join(advisory.get('aliases', []))}")
    print("\n".join(found) or "no package is affected")
    print(f"{len(installed)} packages, {looked_at} advisories of these; the newest is of {newest or 'never'}")
    return 1 if found or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
