"""The whole way in a browser without JavaScript, and what keeps its pages safe."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from lcc.model import Provider, Wishes
from lcc.storage.providers.passwords import verify_password
from lcc.storage.providers.providers import get_provider
from tests.support.browser import Reply
from tests.support.databases import Backend, DirectDatabase
from tests.support.servers.web_site import WebSite

from .kit import Office

FILLED = {"contact": "me@example.org", "bandwidth": "5000", "timezone": "Europe/Amsterdam"}
NIGHT = {f"hour-{hour}": "yes" for hour in (22, 23, 0, 1, 2, 3, 4, 5)}
sqlite_only = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def provider(backend: Backend, pid: int) -> Provider | None:
    database = DirectDatabase(backend.url, backend.home)
    try:
        return database.now(get_provider, pid)
    finally:
        database.blocking.close()


def shown(reply: Reply) -> tuple[str, str]:
    """File and secret of a page that gives them out."""
    text = reply.page.text_content()
    found = re.search(r"lcc-[0-9a-f]{16}\.txt", text)
    assert found is not None
    return found[0], reply.text("secret")


@pytest_twisted.ensureDeferred
async def test_the_whole_way(office: Office, site: WebSite, backend: Backend) -> None:
    browser = office.browser()
    start = await browser.get("/")
    assert start.status == 200 and "/register" in [each.get("href") for each in start.page.xpath("//main//a")]
    form = await browser.get("/register")
    given = await browser.submit(form, site=f"{site.url}pages/", **FILLED, **NIGHT)
    assert given.status == 200, given.body
    file, secret = shown(given)
    password = given.text("password")
    assert f"{site.url}pages/{file}" in given.page.text_content()
    # Not there yet: the exact failure.
    looked = await browser.submit(given)
    assert looked.status == 409
    assert looked.text("fault-title") == "The file is not there yet"
    assert looked.text("failure") == "Not Found" and "(404)" in looked.page.text_content()
    assert f"{site.url}pages/{file}" in looked.page.text_content()
    assert secret not in looked.body.decode() and password not in looked.body.decode()
    site.files[f"/pages/{file}"] = b"something else\n"
    looked = await browser.submit(looked)
    assert looked.text("fault-title") == "Secret not found"
    assert looked.text("failure") == "the file does not contain the secret: it contains 'something else'"
    site.files[f"/pages/{file}"] = secret.encode() + b"\n"
    done = await browser.submit(looked)
    assert done.status == 200, done.body
    pid = int(done.text("pid"))
    assert f"--pid={pid} --pwd-file=password" in done.page.text_content()
    made = provider(backend, pid)
    assert made is not None and verify_password(password, made.password_hash)
    assert (made.roots, made.contact, made.allow_private) == ((f"{site.url}pages/",), "me@example.org", True)
    wishes = Wishes(made.bandwidth_bytes, made.hours, made.timezone, made.priority)
    assert wishes == Wishes(5000, "22-6", "Europe/Amsterdam", 0)
    assert (made.files_max, made.space_max_bytes, made.full_sets) == (100_000, 10 << 30, 10)
    # Coming back, also somebody else with the link, shows how it stands, and looks at the site no more.
    asked = len(site.asked)
    path = next(each.get("href") for each in given.page.xpath("//main//a") if "registration" in each.get("href"))
    again = await office.browser().get(path)
    assert again.text("pid") == str(pid) and secret not in again.body.decode()
    assert len(site.asked) == asked


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_what_is_wrong_is_said_at_its_field(office: Office, site: WebSite) -> None:
    browser = office.browser()
    hostile = "\"><script>alert(1)</script>'"
    form = await browser.get("/register")
    wrong = await browser.submit(
        form, contact=hostile, site="ftp://x/", bandwidth="0", timezone="Mars/X", **{"hour-7": "yes"}
    )
    assert wrong.status == 400
    page = wrong.page
    (alert,) = page.xpath("//*[@role='alert']")
    assert {link.get("href") for link in alert.xpath(".//a")} == {
        f"#{name}" for name in ("contact", "site", "bandwidth", "timezone")
    }
    for name in ("contact", "site", "bandwidth", "timezone"):
        (field,) = page.xpath(f"//input[@name='{name}']")
        assert field.get("aria-invalid") == "true"
        for described in field.get("aria-describedby").split():
            assert page.xpath(f"//*[@id='{described}']")[0].text_content().strip()
    # What was filled in stays, as text.
    assert page.forms[0].fields["contact"] == hostile and b"<script>" not in wrong.body
    assert page.xpath("//input[@type='checkbox' and @checked]/@name") == ["hour-7"]
    # And can be corrected where it stands.
    right = await browser.submit(wrong, contact="a@b", site=site.url, bandwidth="", timezone="")
    assert right.status == 200 and right.text("password")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_every_page_can_be_read_by_everybody(office: Office, site: WebSite) -> None:
    """Names for all fields, a language, a title, one heading, a width for phones, nothing from elsewhere."""
    browser = office.browser()
    replies = [await browser.get(path) for path in ("/", "/register", "/root", "/password", "/nowhere")]
    given = await browser.submit(replies[1], contact="a@b", site=site.url)
    replies += [given, await browser.submit(given), await browser.get("/registration/1-" + "0" * 32)]
    titles = set()
    for reply in replies:
        page = reply.page
        titles.add(page.findtext(".//title"))
        assert reply.body.startswith(b"<!DOCTYPE html>") and page.get("lang") == "en"
        assert len(page.xpath("//h1")) == len(page.xpath("//main")) == 1
        assert page.xpath("//meta[@name='viewport']/@content") == ["width=device-width, initial-scale=1"]
        labels = set(page.xpath("//label/@for"))
        for field in page.xpath("//input[not(@type='hidden')] | //select"):
            assert field.get("id") in labels
        ids = page.xpath("//@id")
        assert len(ids) == len(set(ids))
        assert page.xpath("//script/@src") == ["/copy.js"] and not "".join(page.xpath("//script/text()"))
        assert not page.xpath("//*[@style] | //img | //iframe | //@onclick")
        assert all(link.startswith(("/", "#")) for link in page.xpath("//@href | //@action | //@src"))
    assert len(titles) >= 7
    style = await browser.get("/style.css")
    assert style.headers["content-type"].startswith("text/css") and b"@import" not in style.body
    assert (await browser.get("/register.css")).status == (await browser.get("/copy.js")).status == 200


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_headers(office: Office, site: WebSite) -> None:
    browser = office.browser()
    form = await browser.get("/register")
    given = await browser.submit(form, contact="a@b", site=site.url)
    for reply in (form, given, await browser.get("/"), await browser.get("/nowhere")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "script-src 'self';" in policy and "require-trusted-types-for 'script'" in policy
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "strict-transport-security" not in reply.headers
        assert reply.headers["server"] == "LCC"
    (cookie,) = browser.cookies.values()
    assert cookie["httponly"] and cookie["samesite"].lower() == "strict" and cookie["path"] == "/"


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_command_that_is_shown_can_be_given_to_a_shell(office: Office, site: WebSite) -> None:
    browser = office.browser()
    folder = "a&b;$(id)'/"
    given = await browser.submit(await browser.get("/register"), contact="a@b", site=site.url + folder)
    file, secret = shown(given)
    site.files[f"/{folder}{file}"] = secret.encode()
    done = await browser.submit(given)
    (command,) = done.page.xpath("//pre/code")
    assert f"--urlprefix={site.url}{folder}" in shlex.split(command.text_content())


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_cookies_are_for_https_only_where_that_is_used(open_office: Callable[..., Office]) -> None:
    browser = open_office('url = "https://register.example.org/"').browser()
    reply = await browser.get("/register")
    ((name, cookie),) = browser.cookies.items()
    assert name.startswith("__Host-") and cookie["secure"]
    assert "max-age" in reply.headers["strict-transport-security"]


@sqlite_only
@pytest.mark.parametrize("what", ["no cookie", "no seal", "other seal", "other site", "other cookie"])
@pytest_twisted.ensureDeferred
async def test_forms_from_elsewhere_are_not_taken(office: Office, site: WebSite, what: str, backend: Backend) -> None:
    victim, attacker = office.browser(), office.browser()
    form = await victim.get("/register")
    seal = form.page.forms[0].fields["form"]
    fields = {"contact": "a@b", "site": site.url, "form": seal}
    headers: dict[str, Any] = {}
    if what == "no cookie":
        victim.cookies.clear()
    elif what == "no seal":
        del fields["form"]
    elif what == "other seal":
        # One that the attacker got for its own cookie.
        fields["form"] = (await attacker.get("/register")).page.forms[0].fields["form"]
    elif what == "other site":
        headers["sec-fetch-site"] = "cross-site"
    else:
        victim.cookies["lcc-form"] = "f" * 32
    reply = await victim.post("/register", fields, **headers)
    assert reply.status == 403 and "submit it again" in reply.page.text_content()
    # What was filled in is there, and can be sent.
    again = await victim.submit(reply)
    assert again.status == 200 and again.text("secret")
    path = next(each.get("href") for each in again.page.xpath("//main//a") if "registration" in each.get("href"))
    assert (await victim.post(path, {})).status == 403
    assert site.asked == []


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_requests_that_are_none(office: Office) -> None:
    browser = office.browser()
    for method, path, status in (
        *(("PUT", path, 405) for path in ("/", "/register", "/registration/1", "/style.css", "/openapi.json")),
        *(("GET", path, 404) for path in ("/x", "/register/x", "/registration/1-0", "/registration/1/2", "/api")),
        ("POST", "/", 405),
        ("POST", "/nowhere", 404),
        ("HEAD", "/register", 200),
        ("GET", "/registration/%00%ff", 404),
        ("GET", "/registration", 404),
    ):
        assert (await browser.get(path, method)).status == status, (method, path)
    form = {"content_type": "application/x-www-form-urlencoded"}
    for body in (b"form=%ff", b"form=\xff", b"&".join(b"a%d=1" % number for number in range(50)), b"form=1&form=2"):
        assert (await browser.raw("POST", "/register", body, **form)).status == 400, body
    assert (await browser.raw("POST", "/register", b"form=" + b"x" * 9000, **form)).status == 400
    assert (await browser.raw("POST", "/register", b"{}", content_type="application/json")).status == 415
    multi = b'--x\r\nContent-Disposition: form-data; name="form"\r\n\r\nx\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x"
    assert (await browser.raw("POST", "/register", multi, content_type=kind)).status == 415
    reply = await browser.raw("POST", "/register", b"x" * 40_000, **form)
    assert (reply.status, reply.body) == (413, b"the body is longer than 16384 bytes\n")
    assert (await browser.get("/")).status == 200


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_restart_asks_for_a_form_once_more(open_office: Callable[..., Office], site: WebSite) -> None:
    first = open_office()
    browser = first.browser()
    form = await browser.get("/register")
    await first.stop()
    browser.visitor.port = open_office().port
    stale = await browser.submit(form, contact="a@b", site=site.url)
    assert stale.status == 403
    assert (await browser.submit(stale)).status == 200


def names(reply: Reply) -> set[str]:
    """Of the fields of its form that are seen."""
    return set(reply.page.xpath("//form//input[not(@type='hidden')]/@name | //form//select/@name"))


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_the_operator_is_named(open_office: Callable[..., Office]) -> None:
    browser = open_office('operator = "Example Library"\ncontact = "cache@library.example"').browser()
    start = await browser.get("/")
    assert start.page.findtext(".//h1") == "Example Library"
    # On every page, and once in the title.
    for path in ("/", "/register", "/nowhere"):
        page = (await browser.get(path)).page
        assert page.xpath("//header//a/@href") == ["/", "mailto:cache@library.example"]
        assert page.findtext(".//title").endswith(" · Example Library")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_the_contact_of_the_robot_is_that_of_the_operator(open_office: Callable[..., Office]) -> None:
    browser = open_office(beyond='[bot]\ncontact = "https://library.example/cache"').browser()
    start = await browser.get("/")
    assert start.page.findtext(".//h1") == "Local Content Cache"
    assert start.page.xpath("//header//a/@href")[1:] == ["https://library.example/cache"]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_one_button_is_primary(office: Office) -> None:
    start = await office.browser().get("/")
    (primary,) = start.page.xpath("//a[@class='primary'] | //button")
    assert (primary.text, primary.get("href")) == ("Register a site", "/register")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_priority_is_asked_for_where_there_is_a_choice(open_office: Callable[..., Office]) -> None:
    office = open_office()
    assert "priority" not in names(await office.browser().get("/register"))
    await office.stop()
    form = await open_office("priority_max = 1").browser().get("/register")
    assert "priority" in names(form) and form.page.xpath("//select/option/@value") == ["0", "1"]


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_hours_of_a_week_are_text(open_office: Callable[..., Office], site: WebSite, backend: Backend) -> None:
    office = open_office()
    day = names(await office.browser().get("/register"))
    assert {f"hour-{hour}" for hour in range(24)} < day and "hours" not in day
    await office.stop()
    week = open_office(first="slots = 168").browser()
    form = await week.get("/register")
    assert "hours" in names(form) and "hour-0" not in names(form)
    given = await week.submit(form, contact="a@b", site=site.url, hours="mon-fri 22-6")
    assert given.status == 200


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_time_zones_that_can_be_chosen_are_places(office: Office, site: WebSite) -> None:
    browser = office.browser()
    form = await browser.get("/register")
    zones = form.page.xpath("//datalist/option/@value")
    assert "Europe/Amsterdam" in zones and "UTC" in zones and not {"Factory", "localtime"} & set(zones)
    wrong = await browser.submit(form, contact="a@b", site=site.url, timezone="localtime")
    assert wrong.status == 400 and "not the time zone of a place" in wrong.text("timezone-fault")


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_site_without_a_scheme_is_one_of_https(office: Office, site: WebSite) -> None:
    browser = office.browser()
    form = await browser.get("/register")
    given = await browser.submit(form, contact="a@b", site=f"127.0.0.1:{site.port}/news")
    file, _ = shown(given)
    assert f"https://127.0.0.1:{site.port}/news/{file}" in given.page.text_content()
    # This one speaks http only: that is said.
    looked = await browser.submit(given)
    assert looked.status == 409 and "If the site has no https" in looked.page.text_content()


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_a_password_is_put_into_a_file_of_its_own(office: Office, site: WebSite, tmp_path: Path) -> None:
    """The command makes a file that only its owner can read, and the file of the proof stays readable."""
    browser = office.browser()
    given = await browser.submit(await browser.get("/register"), contact="a@b", site=site.url)
    file, secret = shown(given)
    commands = [each.text_content() for each in given.page.xpath("//pre/code")]
    assert [command for command in commands if "umask 077" in command]
    subprocess.run(["/bin/sh", "-c", "\n".join(reversed(commands))], cwd=tmp_path, check=True, umask=0o022)
    assert (tmp_path / "password").read_text() == given.text("password") + "\n"
    assert (tmp_path / "password").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / file).read_text() == secret + "\n" and (tmp_path / file).stat().st_mode & 0o777 == 0o644


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_after_a_new_password_the_next_step_is_said(office: Office, site: WebSite) -> None:
    browser = office.browser()
    given = await browser.submit(await browser.get("/register"), contact="a@b", site=site.url)
    file, secret = shown(given)
    site.files[f"/{file}"] = secret.encode()
    pid = (await browser.submit(given)).text("pid")
    given = await browser.submit(await browser.get("/password"), pid=pid, site=site.url)
    file, secret = shown(given)
    site.files[f"/{file}"] = secret.encode()
    done = await browser.submit(given)
    (command,) = done.page.xpath("//section[h2='Next steps']//pre/code")
    words = shlex.split(command.text_content())
    assert words[:2] == ["lcccp", "--check"] and f"--pid={pid}" in words and "--pwd-file=password" in words


@sqlite_only
@pytest_twisted.ensureDeferred
async def test_roots_that_are_taken_are_said_before_a_file_is_asked_for(
    open_office: Callable[..., Office], site: WebSite
) -> None:
    browser = open_office("providers_per_site = 1").browser()
    form = await browser.get("/register")
    given = await browser.submit(form, contact="a@b", site=site.url)
    file, secret = shown(given)
    site.files[f"/{file}"] = secret.encode()
    pid = (await browser.submit(given)).text("pid")
    full = await browser.submit(form, contact="other@b", site=site.url)
    assert full.status == 409 and "1 providers already have roots on" in full.text("site-fault")
    # What a provider has already it need not prove again.
    for url in (site.url, f"{site.url}news/"):
        again = await browser.submit(await browser.get("/root"), pid=pid, password=given.text("password"), site=url)
        assert again.status == 400 and "already" in again.text("site-fault")
