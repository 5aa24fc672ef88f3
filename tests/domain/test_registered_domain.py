"""Hosts of one owner."""

from __future__ import annotations

import pytest

from lcc.domain.registered_domain import registered_domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("www.example.org", "example.org"),
        ("a.b.example.co.uk:8080", "example.co.uk"),
        ("somebody.github.io", "somebody.github.io"),
        ("www.xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("no.such.suffix", "such.suffix"),
        ("co.uk", "co.uk"),
        ("localhost:8000", "localhost"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("[2001:db8::1]:8080", "[2001:db8::1]"),
        ("", ""),
        ("2130706433", "2130706433"),
        ("host7.example.org", "example.org"),
        ("7.example.org:80", "example.org"),
        ("_dmarc.example.com", "example.com"),
    ],
)
def test_registered_domain(host: str, domain: str) -> None:
    assert registered_domain(host) == domain
