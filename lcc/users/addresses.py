"""The former name of :mod:`lcc.client.addresses`."""

from __future__ import annotations

from lcc.client.addresses import AddressError, authorization, check_address

__all__ = ["AddressError", "authorization", "check_address"]
