"""Provider passwords, stored hashed.

Generated passwords have 128 random bits: a salted SHA-256 is enough, and fast.  Passwords chosen by people get
scrypt, which takes tens of milliseconds and 16 MB: verify them in a thread.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from lcc.model import Provider

_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 14, 8, 1
_SCRYPT_MEMORY_BYTES = 64 << 20


def generate_password() -> str:
    """A password of 128 random bits, in hexadecimal: safe in shells, files and XML."""
    return secrets.token_hex(16)


def hash_password(password: str, *, generated: bool) -> str:
    """The hash to store.

    :param generated: by :func:`generate_password`, so that a fast hash will do.
    """
    salt = secrets.token_bytes(16)
    if generated:
        return f"sha256${salt.hex()}${_sha256(password, salt).hex()}"
    return f"scrypt${_SCRYPT_N}${_SCRYPT_R}${_SCRYPT_P}${salt.hex()}${_scrypt(password, salt).hex()}"


def is_slow(stored: str) -> bool:
    """Whether verifying against this hash is slow: do it in a thread."""
    return stored.startswith("scrypt$")


def verify_password(password: str, stored: str) -> bool:
    """Whether the password matches, in constant time.

    :param stored: by :func:`hash_password`; anything else matches no password.
    """
    parts = stored.split("$")
    try:
        if parts[0] == "sha256" and len(parts) == 3:
            wanted, actual = bytes.fromhex(parts[2]), _sha256(password, bytes.fromhex(parts[1]))
        elif parts[0] == "scrypt" and len(parts) == 6:
            cost, block, parallel = int(parts[1]), int(parts[2]), int(parts[3])
            wanted = bytes.fromhex(parts[5])
            actual = _scrypt(password, bytes.fromhex(parts[4]), cost, block, parallel)
        else:
            return False
    except ValueError:
        return False
    return hmac.compare_digest(wanted, actual)


def _sha256(password: str, salt: bytes) -> bytes:
    return hashlib.sha256(salt + password.encode("utf-8", "surrogatepass")).digest()


def _scrypt(
    password: str, salt: bytes, cost: int = _SCRYPT_N, block: int = _SCRYPT_R, parallel: int = _SCRYPT_P
) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=_SCRYPT_MEMORY_BYTES, dklen=32)


DUMMY_HASH = hash_password(generate_password(), generated=True)
"""Matches nothing: for unknown providers, so that a login takes the same time."""


TOKEN_PREFIX = "lcc_"
"""What a token begins with; the provider's id and 128 random bits follow."""


def generate_token(pid: int) -> str:
    """A token of a provider: in place of its password, for programs that can be given nothing else."""
    return f"{TOKEN_PREFIX}{pid}_{secrets.token_hex(16)}"


def hash_of(provider: Provider | None, password: str = "") -> str:
    """What a password of this provider is verified against; None: an unknown one.  Nothing matches that, nor that of
    a provider without a password.

    :param password: as it was given: a token is verified against that of the provider's token.
    """
    if provider is None:
        return DUMMY_HASH
    stored = provider.token_hash if password.startswith(f"{TOKEN_PREFIX}{provider.pid}_") else provider.password_hash
    return stored or DUMMY_HASH
