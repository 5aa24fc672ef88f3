"""Some of the cuts of ``make cuts``: in fixed steps from a random one on, and at random."""

from __future__ import annotations

import os
from random import Random

import pytest

from .whole import sample

STRIDES = {"full set": 1201, "chain": 1201, "notifier": 211, "users over HTTP": 307, "users over XML": 307}
"""Primes, so that all directions and kinds of cuts have their turn."""


@pytest.mark.parametrize("name", STRIDES)
def test_promises_hold_wherever_a_connection_is_cut(name: str) -> None:
    seed = int(os.environ.get("LCC_CUTS_SEED", 0)) or Random().randrange(1, 1 << 32)
    done, faults = sample(name, STRIDES[name], seed, extra=10)
    assert not faults, f"LCC_CUTS_SEED={seed}\n" + "\n".join(faults)
    assert sum(done.values()) > 25
