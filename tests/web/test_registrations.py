"""Registrations that wait for approval are counted, and listed."""

from __future__ import annotations

import re

import attrs
import pytest
import pytest_twisted

from lcc.config import RsConfig
from lcc.model import Progress, Proves, Registration
from lcc.roles.web.pages import registrations as registrations_pages
from lcc.storage.providers.registrations import open_registration, prove_registration

from .kit import CANARY, Watch
from .test_pages import check_page, words


@pytest_twisted.ensureDeferred
async def test_what_waits_for_approval_is_listed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations_pages, "PAGE_REGISTRATIONS", 2)
    now = int(watch.monitor.now())
    browser = await watch.visitor()
    # Also while none waits for approval.
    (path,) = check_page(await browser.get("/providers")).xpath("//a[contains(., 'Registrations')]/@href")
    assert "No registrations in progress" in words(await browser.get(path))
    settings = RsConfig(approval=True)
    asked = Registration(
        Proves.PROVIDER, "t", "s", "p", "f.txt", ("http://site.example/",), now - 60, now + 9000, CANARY
    )
    for number in range(5):
        each = attrs.evolve(asked, ticket_hash=f"t{number}", password_hash=f"p{number}")
        watch.database.now(open_registration, each, settings)
    for number in (2, 3, 5):
        found = watch.database.now(prove_registration, number, False, settings, now)
        assert found.state is Progress.PROVEN
    watch.database.now(prove_registration, 1, False, RsConfig(), now)
    watch.says()
    await watch.look()
    # What is counted leads to so many.
    overview = check_page(await browser.get("/"))
    (link,) = [each for each in overview.xpath("//main//a") if "wait for approval" in each.text]
    assert link.text.startswith("3 registrations")
    seen = []
    path = link.get("href")
    while path:
        page = check_page(await browser.get(path))
        seen += page.xpath("//tbody//th/text()")
        path = next(iter(page.xpath("//a[@rel='next']/@href")), "")
    assert seen == ["2", "3", "5"]
    first = check_page(await browser.get("/registrations"))
    text = " ".join(first.text_content().split())
    assert re.search(
        rf"http://site.example/ a new provider {re.escape(CANARY)} ([6-9]\d seconds|1[01]\d seconds|2 minutes) ago",
        text,
    )
    assert first.xpath("//tbody//a/@href") == ["/provider/2"]  # the first one is the kit's
    check_page(await browser.get("/registrations?after=x"), 404)
