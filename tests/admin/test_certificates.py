"""``lcc-admin certificates``: a private authority, its files, their modes; renewal, revocation, expiry."""

from __future__ import annotations

import json
import os
import ssl
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from lcc.admin.cli import main
from lcc.admin.setup import certificates
from lcc.admin.setup.authority import Authority, AuthorityError, host_name, replace, write_new
from lcc.transport.tls.certificates import hosts_of, load, read_certificates, roles_of
from lcc.transport.tls.files import CertificateFiles

Admin = Callable[..., Result]


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admin:
    """``lcc-admin certificates`` in an empty folder, with a careless umask."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    request = CliRunner()

    def run(*arguments: str, code: int = 0) -> Result:
        os.umask(0)
        try:
            result = request.invoke(main, ["certificates", *arguments])
        finally:
            os.umask(before)
        assert result.exit_code == code, (result.output, result.exc_info)
        return result

    os.umask(before)
    return run


def certificate(path: str) -> x509.Certificate:
    return read_certificates(Path(path))[0]


def listed(admin: Admin, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in admin("show", "--json", *arguments, code=code).stdout.splitlines()]


def test_files_for_a_host_are_for_their_owner_alone(admin: Admin, tmp_path: Path) -> None:
    admin("init", "--name", "LCC of example.org")
    admin("add", "10.0.0.2", "botm", "bot", "--also", "rack2.example.org", "--days", "30")
    folder = tmp_path / "certificates"
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert sorted(path.name for path in (folder / "10.0.0.2").iterdir()) == [
        "bot.key", "bot.pem", "botm.key", "botm.pem", "ca.pem",
    ]  # fmt: skip
    issued = certificate("certificates/10.0.0.2/botm.pem")
    assert hosts_of(issued) == ["rack2.example.org", "10.0.0.2"] and roles_of(issued) == {"botm"}
    assert issued.issuer.rfc4514_string() == "CN=LCC of example.org"
    now = datetime.now(UTC)
    assert timedelta(days=29) < issued.not_valid_after_utc - now < timedelta(days=30)
    assert timedelta() < now - issued.not_valid_before_utc < timedelta(hours=2), "for clocks that are behind"
    files = CertificateFiles(*(folder / "10.0.0.2" / name for name in ("ca.pem", "botm.pem", "botm.key")))
    assert load(files).chain == (issued,)


def test_what_a_certificate_is_for(admin: Admin) -> None:
    """No more than its role needs: OpenSSL's own verification says so."""
    admin("init")
    admin("add", "lcc.example.org", "qm", "uns", "botm", "bot", "cu", "admin", "public")
    for role, purposes in {
        "qm": {"sslserver"},
        "uns": {"sslserver", "sslclient"},
        "botm": {"sslserver", "sslclient"},
        "bot": {"sslserver", "sslclient"},
        "cu": {"sslclient"},
        "admin": {"sslclient"},
        "public": {"sslserver"},
    }.items():
        path = f"certificates/lcc.example.org/{role}.pem"
        for purpose in ("sslserver", "sslclient"):
            arguments = ["-x509_strict", "-purpose", purpose, "-CAfile", "certificates/ca.pem", path]
            done = subprocess.run(["openssl", "verify", *arguments], capture_output=True, text=True, check=False)
            assert (done.returncode == 0) == (purpose in purposes), (role, purpose, done.stdout + done.stderr)
    # What was issued cannot issue.
    arguments = ["-CAfile", "certificates/ca.pem", "-purpose", "any"]
    authority = certificate("certificates/ca.pem")
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    for path in Path("certificates/lcc.example.org").glob("*.pem"):
        if path.name != "ca.pem":
            found = certificate(str(path))
            assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
            assert not found.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    public = certificate("certificates/lcc.example.org/public.pem")
    assert roles_of(public) == frozenset()


def test_nothing_is_written_over(admin: Admin, tmp_path: Path) -> None:
    admin("init")
    assert "already has an authority" in admin("init", code=1).output
    admin("add", "host", "qm")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert "exists" in admin("add", "host", "qm", code=1).output
    assert {path: path.read_bytes() for path in before} == before
    # Nor through a link that somebody has put there.
    (tmp_path / "certificates" / "host" / "uns.key").symlink_to(tmp_path / "elsewhere")
    admin("add", "host", "uns", code=1)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "certificates" / "host" / "uns.key", b"x")
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (tmp_path / ".file.new").symlink_to(victim)
    replace(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"kept" and (tmp_path / "file").read_bytes() == b"new"


def test_renewal(admin: Admin, tmp_path: Path) -> None:
    admin("init")
    admin("add", "10.0.0.1", "qm", "public", "--days", "20")
    admin("add", "10.0.0.2", "botm", "--days", "300")
    paths = ["certificates/10.0.0.1/qm.pem", "certificates/10.0.0.1/public.pem", "certificates/10.0.0.2/botm.pem"]
    before = {path: certificate(path) for path in paths}
    said = admin("renew").output
    after = {path: certificate(path) for path in paths}
    assert [path for path in paths if path in said] == paths[:2] == [p for p in paths if before[p] != after[p]]
    for path in paths[:2]:
        old, new = before[path], after[path]
        assert hosts_of(new) == hosts_of(old) and roles_of(new) == roles_of(old)
        assert new.public_key() != old.public_key() and new.serial_number != old.serial_number
        life = new.not_valid_after_utc - new.not_valid_before_utc
        assert life == old.not_valid_after_utc - old.not_valid_before_utc, "as long as before"
        load(CertificateFiles(None, Path(path), Path(path).with_suffix(".key")))
    assert "nothing to renew" in admin("renew", "10.0.0.2").output
    admin("renew", "--all", "--days", "40", "10.0.0.2")
    assert certificate(paths[2]).not_valid_after_utc - datetime.now(UTC) < timedelta(days=40)
    assert stat.S_IMODE(Path("certificates/10.0.0.2/botm.key").stat().st_mode) == 0o600
    # A file that was put there by mistake is not made into something else.
    Path("certificates/10.0.0.2/qm.pem").write_bytes(Path(paths[2]).read_bytes())
    assert "does not match its name" in admin("renew", "--all", code=1).output


def test_an_authority_does_not_outlive_itself(admin: Admin) -> None:
    admin("init", "--days", "100")
    assert "the authority expires earlier" in admin("add", "host", "qm", code=1).output
    admin("add", "host", "qm", "--days", "90")


def test_show_tells_what_expires(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    admin("init")
    admin("add", "10.0.0.1", "qm", "--days", "20")
    admin("add", "10.0.0.2", "bot")
    rows = {row["file"]: row for row in listed(admin)}
    assert list(rows) == [
        "certificates/ca.pem", "certificates/10.0.0.1/qm.pem", "certificates/10.0.0.2/bot.pem",
    ]  # fmt: skip
    assert rows["certificates/10.0.0.1/qm.pem"].pop("days") in (19, 20)
    assert rows["certificates/10.0.0.1/qm.pem"] | {"until": 0} == {
        "file": "certificates/10.0.0.1/qm.pem",
        "role": "qm",
        "until": 0,
        "state": "good",
        "hosts": ["10.0.0.1"],
    }
    assert rows["certificates/ca.pem"]["role"] == "authority"
    listed(admin, "--within", "10")
    listed(admin, "--within", "30", code=1)
    assert "certificates/10.0.0.1/qm.pem" in admin("show").output
    assert len(listed(admin, "certificates/10.0.0.2", "certificates/ca.pem")) == 3
    later = datetime.now(UTC) + timedelta(days=25)
    monkeypatch.setattr(certificates, "_now", lambda: later)
    assert {row["state"] for row in listed(admin)} == {"good", "expired"}
    listed(admin, "--within", "0", code=1)


def test_revocation_is_told_to_every_host(admin: Admin) -> None:
    admin("init")
    for host in ("10.0.0.1", "10.0.0.2"):
        admin("add", host, "botm", "bot")
    admin("revoke", "10.0.0.2", "bot")
    admin("revoke", "10.0.0.1", "botm")
    assert {row["file"] for row in listed(admin) if row["state"] == "revoked"} == {
        "certificates/10.0.0.1/botm.pem", "certificates/10.0.0.2/bot.pem",
    }  # fmt: skip
    texts = {path.read_bytes() for path in Path("certificates").glob("**/ca.pem")}
    assert len(texts) == 1
    done = subprocess.run(
        ["openssl", "crl", "-in", "certificates/ca.pem", "-CAfile", "certificates/ca.pem", "-noout", "-text"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "verify OK" in done.stderr and done.stdout.count("Serial Number") == 2
    ssl.create_default_context(cafile="certificates/ca.pem")
    renewed = admin("renew", "--all").output
    assert "10.0.0.2/botm.pem" in renewed and "10.0.0.2/bot.pem" not in renewed
    assert "no such certificates" in admin("revoke", "10.0.0.9", code=1).output
    assert "no such certificates" in admin("revoke", "10.0.0.1", "qm", code=1).output


def test_a_list_of_revocations_by_a_stranger_counts_for_nothing(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ours = Authority.create(tmp_path / "ours", "same name", 100, now)
    theirs = Authority.create(tmp_path / "theirs", "same name", 100, now)
    theirs.revoke([theirs.add(["host"], "qm", 10, now)], now)
    text = (tmp_path / "theirs" / "ca.pem").read_bytes()
    (tmp_path / "ours" / "ca.pem").write_bytes(
        (tmp_path / "ours" / "ca.pem").read_bytes() + text[text.index(b"-----BEGIN X509 CRL") :]
    )
    with pytest.raises(AuthorityError, match="of no authority in it"):
        Authority(ours.folder)


def test_without_an_authority(admin: Admin, tmp_path: Path) -> None:
    for command in (("add", "host", "qm"), ("renew",), ("revoke", "host"), ("show",)):
        assert "lcc-admin certificates init" in admin(*command, code=1).output
    admin("init")
    Path("certificates/ca.key").unlink()
    assert "the authority's key" in admin("add", "host", "qm", code=1).output
    other = Authority.create(tmp_path / "other", "other", 10, datetime.now(UTC))
    Path("certificates/ca.key").write_bytes((other.folder / "ca.key").read_bytes())
    assert "is not the key of" in admin("add", "host", "qm", code=1).output


@pytest.mark.parametrize(
    ("text", "name"),
    [("10.0.0.1", "10.0.0.1"), ("Host.Example.ORG.", "host.example.org"), ("[2001:DB8::1]", "2001:db8::1"),
     ("b\u00fccher.example", "xn--bcher-kva.example"), ("", None), ("../x", None), ("a b", None), ("-x", None),
     ("*.example.org", None), ("x" * 64, None), ("a..b", None)],
)  # fmt: skip
def test_host_names(text: str, name: str | None) -> None:
    if name is not None:
        assert host_name(text) == name
        return
    with pytest.raises(AuthorityError):
        host_name(text)
