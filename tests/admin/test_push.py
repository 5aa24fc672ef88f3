"""``lcc-admin push``."""

from __future__ import annotations

from tests.support.admin import Lcc


def test_the_commands(lcc: Lcc) -> None:
    assert "no site has pushed anything" in lcc.admin("push", "list").stdout
    assert lcc.admin("push", "approve", "www.example.org").stdout == "www.example.org: no key waits for approval\n"
    assert lcc.admin("push", "refuse", "HTTPS://www.example.org/x").stdout == "www.example.org: no key is known\n"
    assert "Invalid value" in lcc.admin("push", "refuse", "a b", code=2).stderr
