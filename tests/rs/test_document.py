"""What doc/registration.md and doc/security.md say is there."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from lcc.config import RsConfig
from lcc.roles.proof_files import BODY_BYTES_MAX, HEADER_BYTES_MAX

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "doc" / "registration.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "doc" / "security.md").read_text(encoding="utf-8")


def test_settings_and_their_defaults() -> None:
    rows = re.findall(r"^\| (`.*?) \| .* \| (.*?) \|$", TEXT[TEXT.index("| setting in") :], re.MULTILINE)
    defaults = {field.name: field.default for field in attrs.fields(RsConfig)}
    told: dict[str, str] = {}
    for names, values in rows:
        each = re.findall(r"`(\w+)`", names)
        given = values.split(", ") if len(each) > 1 and "," in values else [values] * len(each)
        told |= dict(zip(each, given, strict=False))
    assert len(told) == 19 and told.keys() <= defaults.keys()
    assert (defaults["approval"], defaults["proxy"], defaults["allow_private"], defaults["any_port"]) == (False,) * 4
    assert (told["files_max"], defaults["files_max"]) == ("100,000", 100_000)
    assert (told["space_max_bytes"], defaults["space_max_bytes"]) == ("10 GiB", 10 << 30)
    assert (told["expiry"], defaults["expiry"], defaults["approval_expiry"]) == ("7 and 30 days", 604_800, 2_592_000)
    for name in ("roots_max", "providers_per_site", "providers_per_host", "asks_max", "checks_max", "full_sets"):
        assert told[name] == str(defaults[name]), name
    assert told["failed_logins"] == "10 an hour" and (defaults["failed_logins"], defaults["throttle_window"]) == (
        10,
        3600,
    )


def test_limits_of_a_fetch() -> None:
    settings = RsConfig()
    told = f"{BODY_BYTES_MAX >> 10} KiB of content, {HEADER_BYTES_MAX >> 10} KiB of header"
    seconds, at_once = f"{settings.deadline:g} seconds for all of it", f"{settings.checks_at_once} fetches at once"
    assert f"{told}, {seconds}, {at_once}" in TEXT
    assert f"{settings.redirects_max} at most" in TEXT


def test_each_test_that_is_named_exists() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    defined = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(sources.values()), re.MULTILINE))
    files = {path.name for path in sources}
    for name in re.findall(r"`(?:tests/[\w/]+/)?(test_\w+?)(\.py)?`", SECURITY):
        assert f"{name[0]}.py" in files if name[1] else name[0] in defined, name
    for path in re.findall(r"`(tests/[\w/]+\.py)`", SECURITY):
        assert (ROOT / path).exists(), path
