"""The set that is arriving at the queue manager: elements in runs count and weigh what they do one by one."""

from __future__ import annotations

from lcc.domain.keys import url_key, url_keys
from lcc.model import SetHeader, Source, UrlNotice, source_text
from lcc.protocols.uns_qm import NOTICE_SPELLINGS, Set, write_notice
from lcc.roles.qm.intake.arrivals import OpenSet, open_set

HEADER = SetHeader("uns", "epoch", 1, 7, 1, False, 0, False, 1)
NOTICES = [
    UrlNotice(
        f"http://site.example/{n}?a&b", mimetype="text/html", md5=f"{n:032x}", length=n, mtime=n, sent=f'["c","{n}&"]'
    )
    for n in range(50)
]


def test_a_run_is_what_its_elements_are() -> None:
    usual = NOTICE_SPELLINGS[0]
    rows, end = usual.read("\n".join(map(write_notice, NOTICES)), 0)
    assert len(rows) == 50 and end
    run, single = OpenSet(HEADER), OpenSet(HEADER)
    run.take_run(usual, rows)
    for row in rows:
        single.take(usual.attributes(row))
    assert run.notices == single.notices
    assert [keyed.notice for keyed in run.notices] == NOTICES
    assert run.count == single.count == 50
    assert abs(run.notices_bytes - single.notices_bytes) < 0.05 * single.notices_bytes


def test_of_a_faulty_set_elements_are_only_counted() -> None:
    usual = NOTICE_SPELLINGS[0]
    opened = OpenSet(HEADER, fault="damaged")
    opened.take_run(usual, usual.read(write_notice(NOTICES[0]), 0)[0])
    assert opened.count == 1 and not opened.notices and not opened.notices_bytes


def test_keys_of_many_are_those_of_each() -> None:
    urls = [(f"http://ü.example/{n}\udcff", mimetype) for n in range(9) for mimetype in ("text/html", "")]
    assert url_keys(7, urls) == [url_key(7, curl, mimetype) for curl, mimetype in urls]


def test_a_set_is_told_if_it_does_not_say_its_source() -> None:
    message = Set("epoch", 1, 7, 1, False, 0, False, 1)
    assert open_set("uns", message).header == HEADER
    listed = open_set("uns", Set("epoch", 1, 7, 1, False, 0, False, 1, source="listed"))
    assert listed.header.source is Source.LISTED and not listed.fault


def test_only_told_sets_are_full() -> None:
    for source in Source:
        opened = open_set("uns", Set("epoch", 1, 7, 1, True, 0, False, 1, source=source_text(source)))
        assert bool(opened.fault) is (source is not Source.TOLD)


def test_a_set_of_an_unknown_source_is_refused() -> None:
    for source in ("dreamt", "told,listed", ""):
        assert "source" in open_set("uns", Set("epoch", 1, 7, 1, False, 0, False, 1, source=source)).fault
