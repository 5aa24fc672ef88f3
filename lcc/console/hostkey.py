"""The host key of the consoles in a home folder: made once, shared by all of them."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.conch.ssh.keys import Key

from lcc.console.credentials import UnsafeFile

ALIAS = "lcc"
"""The name that the host has for ssh (``HostKeyAlias``)."""


def known_hosts(path: Path) -> Path:
    """The file for ssh (``UserKnownHostsFile``) beside the host key: ssh never asks whether the host is right."""
    return path.with_name(path.name + ".known")


def host_key(path: Path) -> Key:
    """The host key in this file, made if missing, with :func:`known_hosts` beside it.

    :raises UnsafeFile: it is not a private key, or others can read it.
    """
    if not path.exists():
        _make(path)
    if path.stat().st_mode & 0o077:
        raise UnsafeFile(f"the host key {path} is readable by others: remove it, and a new one is created")
    try:
        key: Key = Key.fromString(path.read_bytes())
        if key.isPublic():
            raise ValueError("it is public")
    except Exception as error:  # whatever is wrong with the bytes
        raise UnsafeFile(f"{path} is not a private key: {error}") from None
    public = known_hosts(path)
    line = ALIAS.encode() + b" " + key.public().toString("openssh") + b"\n"
    if not public.exists() or public.read_bytes() != line:
        _put(public, line, replace=True)
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = Key(Ed25519PrivateKey.generate())
    _put(path, key.toString("openssh", subtype="v1"), replace=False)


def _put(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file atomically; of several processes one wins."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            new.replace(path)
        else:
            try:
                os.link(new, path)
            except FileExistsError:
                pass  # another role in this home was quicker
    finally:
        new.unlink(missing_ok=True)
