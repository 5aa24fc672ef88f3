"""``make sbom``: what an installation consists of.  Its check is tested on the packages of this environment; ``make
test-long`` installs the wheel, and has them listed by CycloneDX."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FOR_DEVELOPERS = {"test", "check", "doc"}
Bom = dict[str, Any]


def name_of(requirement: str) -> str:
    """As indexes of packages have it."""
    return re.sub("[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


def settings() -> configparser.ConfigParser:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup


def listed_extras() -> list[str]:
    """Those with which "make sbom" installs the wheel."""
    [extras] = re.findall(r"lcc-\*\.whl \| head -1\)\[([\w,]+)\]", (ROOT / "Makefile").read_text(encoding="utf-8"))
    return str(extras).split(",")


def faults(bom: Bom) -> list[str]:
    """What is wrong with such a list."""
    setup = settings()
    version = setup["metadata"]["version"]
    found = [name_of(component["name"]) for component in bom["components"]]
    extras = [setup["options.extras_require"][name] for name in listed_extras()]
    lines = "\n".join([setup["options"]["install_requires"], *extras]).splitlines()
    wanted = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    required = {name_of(each.name) for each in wanted if each.marker is None or each.marker.evaluate()}
    assert {"twisted", "tantivy"} <= required
    lccs = [each["version"] for each in bom["components"] if name_of(each["name"]) == "lcc"]
    return [
        *(f"{name} is missing" for name in sorted(required - set(found))),
        *(f"{name} is there twice" for name in sorted(set(found)) if found.count(name) > 1),
        *(f"{each['name']} has no version" for each in bom["components"] if not each["version"]),
        # Of what tests, checks and documentation need nothing is installed.
        *(f"{name} is not for users" for name in sorted({"pytest", "mypy", "sphinx", "pip"} & set(found))),
        *([] if lccs == [version] else [f"it is of {lccs}, not of {version}"]),
    ]


def installed(name: str, extras: Iterable[str]) -> dict[str, str]:
    """Package -> version: this one and all that it requires, as they are installed here.

    :raises AssertionError: one has a version that is not allowed.
    """
    versions: dict[str, str] = {}
    seen, ahead = set(), [(name, frozenset(extras))]
    while ahead:
        each = ahead.pop()
        if each in seen:
            continue
        seen.add(each)
        package = distribution(each[0])
        versions[name_of(each[0])] = package.version
        for wanted in map(Requirement, package.requires or ()):
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in each[1] | {""}):
                there = distribution(wanted.name).version
                assert wanted.specifier.contains(there, prereleases=True), f"{each[0]}: {wanted}; there is {there}"
                ahead.append((wanted.name, frozenset(wanted.extras)))
    return versions


@pytest.fixture(scope="module")
def bom() -> Bom:
    """Of what a user would install."""
    found = installed("lcc", listed_extras())
    return {"components": [{"name": name, "version": version} for name, version in found.items()]}


def test_each_extra_for_users_is_listed() -> None:
    assert set(listed_extras()) == set(settings()["options.extras_require"]) - FOR_DEVELOPERS


def test_nothing_is_wrong(bom: Bom) -> None:
    assert len(bom["components"]) > 30 and faults(bom) == []


def without(name: str) -> Callable[[list[Bom]], list[Bom]]:
    return lambda components: [each for each in components if each["name"] != name]


def with_one(name: str, version: str) -> Callable[[list[Bom]], list[Bom]]:
    return lambda components: [*components, {"name": name, "version": version}]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without("twisted"), "twisted is missing"),
        (without("tantivy"), "tantivy is missing"),
        (without("lcc"), "it is of []"),
        (with_one("Twisted", "1"), "twisted is there twice"),
        (with_one("new", ""), "new has no version"),
        (with_one("pytest", "9"), "pytest is not for users"),
    ],
)
def test_what_is_wrong_is_found(bom: Bom, change: Callable[[list[Bom]], list[Bom]], fault: str) -> None:
    (found,) = faults({"components": change(bom["components"])})
    assert found.startswith(fault)


@pytest.mark.long
def test_it_names_all_that_the_lcc_requires() -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True, timeout=900)
    text = (ROOT / "build" / "sbom.json").read_text(encoding="utf-8")
    bom = json.loads(text)
    assert bom["bomFormat"] == "CycloneDX" and "file://" not in text and str(ROOT) not in text
    newest = max((ROOT / "dist").glob("lcc-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    assert newest.name.split("-")[1] == settings()["metadata"]["version"], "the wheel that was installed"
    assert faults(bom) == []
