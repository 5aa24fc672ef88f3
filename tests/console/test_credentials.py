"""The files that say who may log in, and the commands around them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lcc.admin.cli import main
from lcc.admin.processes.console import _place, configured
from lcc.config import parse_config
from lcc.console.credentials import (
    FILE_BYTES_MAX,
    NOBODYS_HASH,
    UnsafeFile,
    key_lines,
    read_trusted,
    stored_hash,
    with_password,
)
from lcc.console.text import Text, harmless, screen
from lcc.storage.providers.passwords import is_slow, verify_password


def test_a_file_is_trusted_or_not(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert read_trusted(path) == ""
    path.write_text("text")
    path.chmod(0o644)
    assert read_trusted(path) == "text"
    for mode in (0o664, 0o646, 0o666):
        path.chmod(mode)
        with pytest.raises(UnsafeFile, match="writable by others"):
            read_trusted(path)
    path.chmod(0o600)
    path.write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    with pytest.raises(UnsafeFile, match="longer"):
        read_trusted(path)
    with pytest.raises(UnsafeFile, match="directory"):
        read_trusted(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UnsafeFile, match="not a regular file"):
        read_trusted(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="files can be given away by root only")
def test_a_file_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("text")
    os.chown(path, 12345, -1)
    with pytest.raises(UnsafeFile, match="owned by another user"):
        read_trusted(path)


def test_passwords() -> None:
    text = with_password("", "alice", "one", generated=False)
    text = with_password(text, "bob", "two", generated=True)
    text = with_password(text, "alice", "three", generated=False)
    assert [line.partition(":")[0] for line in text.splitlines()] == ["bob", "alice"]
    assert verify_password("three", stored_hash(text, "alice")) and verify_password("two", stored_hash(text, "bob"))
    assert not verify_password("one", stored_hash(text, "alice"))
    for nobody in ("", "carol", "ali", "alice:scrypt"):
        assert stored_hash(text, nobody) == NOBODYS_HASH
    assert is_slow(NOBODYS_HASH) and not verify_password("", NOBODYS_HASH)
    for name in ("", "a:b", "a b", "#a", "a\nb", "x" * 101):
        with pytest.raises(ValueError, match="a name has"):
            with_password(text, name, "x", generated=True)


def test_lines_of_keys() -> None:
    assert list(key_lines("# none\n\n  ssh-ed25519 AAAA me \nssh-rsa BBBB\n")) == [
        "ssh-ed25519 AAAA me",
        "ssh-rsa BBBB",
    ]


def test_what_is_shown() -> None:
    assert harmless("a\x1b[2J\x07\u202eb\tc\n\ud800") == "a\\x1b[2J\\x07\\u202eb\tc\n\\ud800"
    assert screen([("name", "text"), ("", "more")]) == "name          text\n              more"
    assert len(screen([("name", "x" * 1000)])) == 300
    assert repr(Text("plain")) == "plain"


# lcc-admin.


def admin(folder: Path, *arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["--config", str(folder / "lcc.toml"), *arguments], input=text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lcc-home").mkdir()
    (tmp_path / "lcc.toml").write_text("")
    return tmp_path


def test_a_password_is_printed_once_and_stored_hashed(folder: Path) -> None:
    out = admin(folder, "console-password", "alice")
    assert out.exit_code == 0 and out.stdout.startswith("password: ")
    password = out.stdout.split()[1]
    path = folder / "lcc-home" / "manhole-passwords"
    assert path.stat().st_mode & 0o777 == 0o600 and password not in path.read_text()
    assert verify_password(password, stored_hash(path.read_text(), "alice"))
    out = admin(folder, "console-password", "bob", "--password-file", "-", text="chosen\n")
    assert out.stdout == "password: as given\n"
    assert verify_password("chosen", stored_hash(path.read_text(), "bob"))
    assert admin(folder, "console-password", "a b").exit_code == 1
    path.chmod(0o666)
    assert "writable by others" in admin(folder, "console-password", "alice").output


def test_where_a_console_is(folder: Path) -> None:
    out = admin(folder, "console")
    assert out.exit_code == 1 and "no console is configured" in out.output
    (folder / "lcc.toml").write_text(
        '[qm]\nmanhole = "unix:{home}/q.sock"\n[uns]\nmanhole = "tcp6:22:interface=\\\\:\\\\:1"\n'
    )
    assert "choose a ROLE: uns, qm" in admin(folder, "console").output
    assert "no console is configured for bot" in admin(folder, "console", "bot").output
    assert "has never been started" in admin(folder, "console", "qm").output
    config = parse_config((folder / "lcc.toml").read_text(), folder)
    found = configured(config)
    assert list(found) == ["uns", "qm"]
    assert _place(found["uns"]) == ["-p", "22", "::1"]
    (option, relay, host) = _place(found["qm"])
    assert (
        option == "-o" and relay.endswith(f"-m lcc.admin.processes.relay {folder}/lcc-home/q.sock") and host == "lcc"
    )


def test_check_looks_at_consoles(folder: Path) -> None:
    (folder / "lcc.toml").write_text(
        f'[qm]\nmanhole = "unix:{{home}}/{"q" * 100}"\n[uns]\nmanhole = "tcp:99999:interface=127.0.0.1"\n'
    )
    said = admin(folder, "check").output
    assert "qm.manhole: the socket path is longer" in said and "uns.manhole" in said and "ports end at" in said
    assert "nobody can log in" in said
    admin(folder, "console-password", "alice")
    assert "nobody can log in" not in admin(folder, "check").output
