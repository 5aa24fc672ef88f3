"""Which addresses are refused, and which spellings of them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.errors import FetchError
from lcc.fetchers.addresses import Reach, check_address, check_addresses, literal_address, reach

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.254",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "2002:808:808::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
)
PRIVATE = (
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "::1",
    "fec0::1",
    "fc00::1",
    "fd12:3456::1",
    "2001:db8::1",
    "3fff::1",
    "64:ff9b:1::1",
    "100::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::10.0.0.1",
    "2001:db8::5efe:10.0.0.1",
    "2a00::200:5efe:10.0.0.1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:0:808:808:0:0:80ff:fffe",
)
NEVER = (
    "0.0.0.0",
    "0.1.2.3",
    "169.254.0.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::1",
    "febf::1",
    "fe80::a9fe:a9fe",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:0:a9:fea9:fe00:0",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "2a00::5efe:a9fe:a9fe",
    "::169.254.169.254",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "::8.8.8.8",
    "ff02::1",
    "ff0e::1",
    "::ffff:0.0.0.0",
    "::ffff:255.255.255.255",
    "64:ff9b::e000:1",
    "2002:e000:1::",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    check_address(address, False)
    check_address(address, True)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_for_providers_registered_so(address: str) -> None:
    check_address(address, True)
    with pytest.raises(FetchError) as caught:
        check_address(address, False)
    assert caught.value.entry.name == "address-forbidden"
    assert address in caught.value.text and "--allow-private" in caught.value.text


@pytest.mark.parametrize("address", [*NEVER, "fe80::1%eth0", "nonsense", "1.2.3", "127.1", ""])
@pytest.mark.parametrize("private", [False, True])
def test_what_can_be_no_web_server_is_always_refused(address: str, private: bool) -> None:
    with pytest.raises(FetchError) as caught:
        check_address(address, private)
    assert caught.value.entry.name == "address-forbidden"


def test_one_forbidden_address_refuses_the_host() -> None:
    check_addresses(["8.8.8.8", "2606:4700:4700::1111"], False)
    with pytest.raises(FetchError):
        check_addresses(["8.8.8.8", "127.0.0.1"], False)


@given(st.ip_addresses())
def test_nothing_passes_that_the_standard_library_holds_for_private(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        mapped = getattr(address, "ipv4_mapped", None)
        assert reach(str(mapped or address)) is not Reach.GLOBAL


@given(st.ip_addresses(v=4))
def test_an_address_does_not_reach_further_in_disguise(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    found = reach(str(inner))
    assert reach(str(ipaddress.IPv6Address(0xFFFF << 32 | number))) is found
    assert reach(str(ipaddress.IPv6Address(0x64FF9B << 96 | number))) is found
    assert reach(str(ipaddress.IPv6Address(0x2002 << 112 | number << 80 | 1))) is found
    assert reach(str(ipaddress.IPv6Address(number))) is not Reach.GLOBAL
    assert reach(str(ipaddress.IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF))) is not Reach.GLOBAL


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("255.255.255.255", "255.255.255.255"),
        ("[::1]", "::1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
        ("example.org", None),
        ("example.org.", None),
        ("1and1.com", None),
        ("1.2.3.4.example", None),
        ("xn--bcher-kva.example", None),
        ("under_score.example", None),
        ("localhost", None),
        ("0x7f.example", None),
    ],
)
def test_hosts_that_are_addresses(host: str, address: str | None) -> None:
    found = literal_address(host)
    if found is not None and address is not None:
        assert ipaddress.ip_address(found) == ipaddress.ip_address(address)
    else:
        assert found == address


@pytest.mark.parametrize(
    "host",
    [
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.0x1",
        "127.0.0.1.",
        "256.0.0.1",
        "1.2.3.4.5",
        "example.0x10",
        "example.12",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[::1",
        "[127.0.0.1]",
        "[]",
        "",
        ".",
        "a..b",
        ".example.org",
        "-",
        "a b",
        "a\0b",
        "a/b",
        "\u2460.example",
        "x" * 64 + ".example",
        "x." * 127 + "xx",
    ],
)
def test_odd_spellings_are_refused(host: str) -> None:
    with pytest.raises(FetchError) as caught:
        literal_address(host)
    assert caught.value.entry.name == "address-forbidden"
