"""Bugs of registrations."""

from __future__ import annotations

from ..run import MOVES
from .bug import Bug

REGISTRATIONS = [
    Bug(
        "secret-not-compared",
        "P19: whatever is in the file proves the site",
        "lcc/roles/rs/prover.py",
        "    if not verify_password(text, secret_hash):\n",
        "    if not text:\n",
    ),
    Bug(
        "provider-made-twice",
        "P19: that a registration has its provider already is not looked at, in neither of two places",
        "lcc/storage/providers/registrations.py",
        "    if done is not None:\n        return int(done)\n    check_sites",
        "    check_sites",
        kind=MOVES,
        also=(
            "lcc/storage/providers/providers.py",
            "if done is not None and provider.pid in (0, done):",
            "if done == 0:",
        ),
    ),
    Bug(
        "begun-and-forgotten",
        "P19: a provider that was about to be made when the registration server died is not gone on with",
        "lcc/roles/fe_rs/store.py",
        "            if registration is not None:\n                try:",
        "            if registration is None:\n                try:",
        kind=MOVES,
    ),
]
