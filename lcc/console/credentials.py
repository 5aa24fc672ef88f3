"""Credentials of the console: two files, read at each login, so that changes take effect at once.

One has public keys as in OpenSSH's ``authorized_keys`` (lines with options are skipped); each of them logs in under
any name.  The other has a line ``NAME:HASH`` for each user with a password, made by ``lcc-admin console-password``.
A file that others could have written is ignored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lcc.model.shellwords import shell_command
from lcc.storage.providers.passwords import hash_password

FILE_BYTES_MAX = 1 << 20
NAME_CHARS = 100

NOBODYS_HASH = f"scrypt$16384$8$1${'00' * 16}${'00' * 32}"
"""Matches nothing, at the cost of checking a chosen password."""


class UnsafeFile(Exception):
    """The file cannot be read, or not be trusted."""


def read_trusted(path: Path) -> str:
    """The text of a file that only this user and root can write to; empty: there is none.

    :raises UnsafeFile: others can write to it, or it is not a regular file, or too long.
    """
    try:
        # Do not block on a pipe.
        opened = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UnsafeFile(f"{path}: {error.strerror}") from None
    with opened as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeFile(f"{path} is not a regular file")
        if found.st_uid not in (0, os.geteuid()):
            raise UnsafeFile(f"{path} is owned by another user")
        if found.st_mode & 0o022:
            raise UnsafeFile(f"{path} is writable by others ({shell_command('chmod', 600, path)})")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UnsafeFile(f"{path} is longer than {FILE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


def key_lines(text: str) -> Iterator[str]:
    """The lines of an ``authorized_keys`` file that may hold a key."""
    for line in text.splitlines():
        words = line.strip()
        if words and not words.startswith("#"):
            yield words


def stored_hash(text: str, name: str) -> str:
    """The hash of a user's password in a password file; where there is none, one that matches nothing."""
    for line in text.splitlines():
        user, colon, hashed = line.strip().partition(":")
        if colon and user == name:
            return hashed
    return NOBODYS_HASH


def with_password(text: str, name: str, password: str, *, generated: bool) -> str:
    """A password file with this user's password, the others' as they were.

    :raises ValueError: an invalid name.
    """
    if not name or len(name) > NAME_CHARS or not name.isprintable() or set(name) & set(":# "):
        raise ValueError(f"a name has 1 to {NAME_CHARS} printable characters, without colon, space or #")
    others = [line for line in text.splitlines() if line.partition(":")[0] != name]
    return "\n".join([*others, f"{name}:{hash_password(password, generated=generated)}"]) + "\n"
