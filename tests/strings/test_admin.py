"""Hostile strings as arguments of ``lcc-admin`` and as values in ``lcc.toml``: they come out equal, or are refused.

Of the many only some are tried each time; with ``LCC_LONG`` all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from lcc.admin.cli import main
from lcc.config import load_config
from lcc.domain.urls import normalise
from lcc.errors import ConfigError, UrlError
from lcc.storage.providers.providers import provider_status
from tests.support.admin import Lcc
from tests.support.databases import Backend
from tests.support.switches import LONG

from .hostile import TEXTS, UNSPEAKABLE

BIN = Path(sys.executable).parent
ALL = TEXTS + UNSPEAKABLE
SOME = ALL if LONG else tuple(Random().sample(ALL, 12))
BYTES = (
    b"\xff",
    b"\xc3",
    b"a\xed\xa0\x80",
    b"\xf5\x80\x80\x80",
    b"\xc0\xaf",
    b"\xe2\x80",
    b"\n",
    b"\x1b[31m",
    b"'\"\\%",
)

SQLITE_ALWAYS = pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture
def lcc(backend: Backend) -> Lcc:
    lcc = Lcc(backend.home, backend.url)
    lcc.admin("init")
    return lcc


def said(lcc: Lcc, *arguments: str, codes: tuple[int, ...] = (0, 2)) -> str | None:
    """What the command prints; None: it refused its arguments, and said why."""
    result = CliRunner().invoke(main, ["--config", str(lcc.config_path), *arguments])
    assert result.exit_code in codes, (arguments, result.output, result.exc_info)
    if result.exit_code == 0:
        return result.stdout
    assert "Error: " in result.stderr, (arguments, result.output)
    assert "\x1b" not in result.stderr
    return None


@SQLITE_ALWAYS
def test_names_of_users(lcc: Lcc) -> None:
    given = [text for text in SOME if said(lcc, "user", "add", "--", text) is not None]
    assert [row["name"] for row in lcc.rows("user", "list")] == given
    assert {text for text in SOME if text.strip() and text.isprintable() and len(text) <= 200} == set(given)


@SQLITE_ALWAYS
def test_reasons_for_full_sets(lcc: Lcc) -> None:
    (provider,) = lcc.rows("provider", "add", "--root", "http://site/")
    for text in SOME:
        if said(lcc, "provider", "want-full-set", str(provider["pid"]), f"--reason={text}") is not None:
            (order,) = lcc.database().interact(
                lambda txn: txn.query("SELECT text FROM orders ORDER BY id DESC LIMIT 1")
            )
            assert order[0] == " ".join(text.split())
    assert lcc.write(provider_status, provider["pid"], 1).full_set_wanted == ""  # the queue manager carries it out


@SQLITE_ALWAYS
def test_roots(lcc: Lcc) -> None:
    for text in SOME:
        root = f"http://site/{text}/"
        out = said(lcc, "provider", "add", f"--root={root}", "--json")
        try:
            normal = normalise(root)
        except UrlError:
            assert out is None, ascii(text)
            continue
        if out is None:
            continue  # a root has no query and no fragment
        (shown,) = lcc.rows("provider", "show", str(json.loads(out)["pid"]))
        assert shown["roots"] == [normal], ascii(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("provider", "add", "--root=http://site/", "--hours={}"),
        ("provider", "add", "--root=http://site/", "--timezone={}"),
        ("provider", "add", "--root=http://site/", "--contact={}"),
        ("provider", "add", "--root=http://site/", "--bandwidth={}"),
        ("provider", "show", "{}"),
        ("urls", "--prefix={}"),
        ("urls", "--prefix=http://site/{}"),
        ("urls", "--subtype={}"),
        ("urls", "--mimetype={}"),
        ("urls", "--since={}"),
        ("urls", "--provider={}"),
        ("why", "--", "{}"),
        ("why", "http://site/{}"),
        ("retry", "--code={}"),
        ("{}",),
        ("--{}",),
    ],
    ids=" ".join,
)
def test_everything_else_is_taken_or_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.admin("init")
    for text in SOME:
        said(lcc, *(argument.replace("{}", text) for argument in arguments), codes=(0, 1, 2))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    lcc = Lcc(tmp_path, "sqlite:lcc.db")
    lcc.admin("init")
    for raw in BYTES if LONG else BYTES[:1]:
        for arguments in ((b"user", b"add", raw), (b"why", b"http://site/" + raw), (b"urls", b"--subtype=" + raw)):
            command = [os.fsencode(BIN / "lcc-admin"), b"--config", os.fsencode(lcc.config_path), *arguments]
            result = subprocess.run(command, capture_output=True, timeout=120, check=False)
            assert result.returncode in (0, 2), (arguments, result)
            assert b"Traceback" not in result.stderr, result.stderr
            if result.returncode:
                assert b"Error: " in result.stderr


TOML = {
    "uns": ("name", "spool", "listen", "connect"),
    "botm": ("name", "content", "listen", "content_url"),
    "bot": ("name", "content", "user_agent"),
    "database": ("url",),
    "": ("home", "timezone", "mimetypes"),
}


@pytest.mark.parametrize(("section", "name"), [(section, name) for section, names in TOML.items() for name in names])
def test_values_of_the_configuration(tmp_path: Path, section: str, name: str) -> None:
    path = tmp_path / "lcc.toml"
    for text in ALL:
        if any("\ud800" <= char <= "\udfff" for char in text):
            continue  # TOML is UTF-8
        # JSON writes what is beyond 16 bits as pairs, which TOML does not have.
        value = json.dumps([text] if name == "mimetypes" else text, ensure_ascii=False).replace("\x7f", "\\u007f")
        path.write_text(f"[{section}]\n{name} = {value}\n" if section else f"{name} = {value}\n")
        try:
            config = load_config(path)
        except ConfigError as error:
            assert all(name in fault for fault in error.faults), (ascii(text), error.faults)
            assert all(fault.isprintable() for fault in error.faults), (ascii(text), error.faults)
            continue
        kept = getattr(getattr(config, section) if section else config, name)
        assert kept == (
            (text,) if name == "mimetypes" else tmp_path / Path(text).expanduser() if name == "home" else text
        ), ascii(text)
