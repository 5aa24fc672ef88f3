"""What tests of the spider's engine have in common."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.roles.spider import SpiderWorld

ROOTS = ("http://one.example/", "http://two.example/", "http://three.example/")
SCOPE = r"http://(one|two|three)\.example/"
Worlds = Callable[..., SpiderWorld]
