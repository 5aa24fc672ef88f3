"""The growth of an LCC: the made-up web, the model, and a tiny simulation with the real storage."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
from growth.__main__ import drained_after, modelled, report, simulate
from growth.figures import Assumptions, Costs
from growth.model import Cores, Rates, Site, needs
from growth.world import CLASSES, HOURS, ChangeClass, World, by_hour, changes_per_day
from hypothesis import given
from hypothesis import strategies as st

from lcc.testing.mariadb import PrivateMariaDb

EASY = Assumptions(
    urls=864e6,
    provider_urls=1000,
    changes_per_day=0.1,
    pages_per_set=4,
    kept_part=0,
    full_set_days=10,
    page_bytes=30e3,
    wire_bytes=12e3,
    notice_bytes=120,
    https_part=0.5,
    pages_per_connection=2,
    fetch_seconds=0.5,
    reads_per_page=1,
    reads_by_url=0.25,
    peak=2,
    busy=0.5,
    fill=0.7,
    cores=16,
    disk_bytes=60e12,
    database_bytes=1e12,
    robot_fetches=200,
)
"""Figures that a pencil is enough for: 1000 pages change in a second."""
EASY_COSTS = Costs(
    session_uns_us=2400,
    session_qm_us=1200,
    session_database_us=1300,
    session_tls_us=800,
    front_session_us=400,
    front_element_us=5,
    set_uns_us=400,
    set_qm_us=500,
    set_database_us=300,
    session_syncs=2,
    set_syncs=1,
    uns_us=15,
    qm_us=200,
    database_us=250,
    qm_unchanged_us=25,
    database_unchanged_us=20,
    botm_us=75,
    central_us=75,
    bot_us=230,
    decode_us=130,
    tls_us=1500,
    cu_by_url_us=720,
    botm_by_url_us=210,
    cu_packed_us=250,
    botm_packed_us=40,
    cu_row_us=14,
    database_row_us=4,
    row_bytes=900,
    row_reads=9,
    row_writes=6,
    page_reads=3,
    page_writes=3,
)


def amount(part: str, what: str, assumptions: Assumptions, costs: Costs) -> float:
    return next(need.amount for need in needs(assumptions, costs) if (need.part, need.what) == (part, what))


def site(assumptions: Assumptions, costs: Costs) -> tuple[Rates, Cores, Site]:
    rates = Rates.of(assumptions)
    cores = Cores.of(rates, assumptions, costs)
    return rates, cores, Site.of(rates, cores, assumptions, costs)


def test_every_page_has_one_owner() -> None:
    world = World(5000, 40)
    owned = [page for pid in range(1, 41) for page in world.pages(pid)]
    assert owned == list(range(5000))
    assert all(page in world.pages(world.owner(page)) for page in range(5000))
    assert len(world.pages(1)) > 3 * len(world.pages(40)) > 0


def test_as_much_changes_as_the_classes_say() -> None:
    world = World(100_000, 100)
    hours = [sum(len(pages) for _, pages in world.hour(hour)) for hour in range(HOURS)]
    assert sum(hours) == pytest.approx(100_000 * changes_per_day(), rel=0.05)
    assert max(hours) > 3 * min(hours)
    assert sum(by_hour(hour) for hour in range(HOURS)) == pytest.approx(HOURS)


def test_pages_of_a_class_change_as_often_as_it_says() -> None:
    world = World(1000, 10, (ChangeClass(10, 0.5), ChangeClass(90, 1000.0)))
    pages = [page for hour in range(10 * HOURS) for _, some in world.hour(hour) for page in some]
    often = sum(page % 100 < 10 for page in pages)
    assert often == pytest.approx(100 / 0.5 * 10, rel=0.15)  # a page twice in an hour counts once
    assert len(pages) - often < 30


def test_a_set_has_as_many_pages_as_the_web_of_the_simulation_puts_in_one() -> None:
    world = World(10_000_000, 10_000)
    a_day = [len(world.pages(pid)) * changes_per_day() / HOURS for pid in range(1, 10_001)]
    pages = sum(mean * by_hour(hour) for mean in a_day for hour in range(HOURS))
    # A provider has something to tell of in an hour unless a Poisson number of this mean is 0.
    sets = sum(1 - math.exp(-mean * by_hour(hour)) for mean in a_day for hour in range(HOURS))
    assert Assumptions().pages_per_set == pytest.approx(pages / sets, rel=0.03)


def test_the_rates_are_what_a_pencil_says() -> None:
    assert Rates.of(EASY) == Rates(
        pages=pytest.approx(2000),
        unchanged=pytest.approx(2000),
        sessions=pytest.approx(500 + 2),
        kept=0,
        connections=pytest.approx(500),
        by_url=pytest.approx(500),
        packed=pytest.approx(1500),
    )


def test_the_cores_are_what_a_pencil_says() -> None:
    assert Cores.of(Rates.of(EASY), EASY, EASY_COSTS) == Cores(
        front=pytest.approx((502 * 2.0e-3 + 4000 * 5e-6) / 0.5),
        uns=pytest.approx((502 * 3.2e-3 + 4000 * 15e-6) / 0.5),
        qm=pytest.approx((502 * 1.2e-3 + 2000 * 200e-6 + 2000 * 25e-6) / 0.5),
        database=pytest.approx((502 * 1.3e-3 + 2000 * 250e-6 + 2000 * 20e-6 + 2000 * 4e-6) / 0.5),
        botm=pytest.approx((2000 * 75e-6 + 500 * 210e-6 + 1500 * 40e-6) / 0.5),
        central=pytest.approx(2000 * 75e-6 / 0.5),
        bot=pytest.approx((2000 * 360e-6 + 500 * 1.5e-3) / 0.5),
        cu=pytest.approx((500 * 734e-6 + 1500 * 250e-6) / 0.5),
    )


def test_a_set_over_an_open_connection_costs_no_session() -> None:
    kept = attrs.evolve(EASY, kept_part=0.5)
    rates, cores, found = site(kept, EASY_COSTS)
    assert (rates.sessions, rates.kept) == (pytest.approx(251), pytest.approx(251))
    assert cores.uns == pytest.approx((251 * 3.2e-3 + 251 * 0.4e-3 + 4000 * 15e-6) / 0.5)
    assert cores.qm == pytest.approx((251 * 1.2e-3 + 251 * 0.5e-3 + 2000 * 200e-6 + 2000 * 25e-6) / 0.5)
    before = Cores.of(Rates.of(EASY), EASY, EASY_COSTS).database
    assert before - cores.database == pytest.approx(251 * (1.3e-3 - 0.3e-3) / 0.5)
    syncs = amount("sub-LCC", "syncs for sets, if none is shared", kept, EASY_COSTS)
    assert syncs == pytest.approx((251 * 2 + 251) / found.sub_lccs)


def test_the_machines_are_what_a_pencil_says() -> None:
    _, _, found = site(EASY, EASY_COSTS)
    # QM: 2.1 cores.  Each of the three: UNSes 1.1 cores, content 8.6 TB, robots 0.98 cores and 333 fetches.
    assert found == Site(sub_lccs=3, content_machines=3, robots=6, front=3, uns=6, cu=2, central=0, front_machines=1)
    assert found.machines == 7
    # 259 TB: 86.4 for each, 42 on a disk; what is behind several machines is a central BOT-M.
    _, _, more = site(attrs.evolve(EASY, page_bytes=300e3), EASY_COSTS)
    assert (more.sub_lccs, more.content_machines, more.robots, more.central) == (3, 9, 9, 3)
    # 4.32 TB of rows, 0.7 on a disk; nobody is without a machine with content.
    _, _, larger = site(EASY, attrs.evolve(EASY_COSTS, row_bytes=5000))
    assert (larger.sub_lccs, larger.content_machines, larger.robots) == (7, 7, 7)


def test_the_lines_have_the_units_that_they_name() -> None:
    for part, what, expected in (
        ("busiest hour", "fetches at once", 1000),
        ("disk", "databases", 0.7776),
        ("disk", "content", 25.92),
        ("sub-LCC", "URLs", 288),
        ("sub-LCC", "changed pages", 2000 / 3),
        ("sub-LCC", "rows read", 6000),
        ("sub-LCC", "rows written", 4000),
        ("sub-LCC", "database pages read from disk", 2000),
        ("sub-LCC", "database pages written to disk", 2000),
        ("sub-LCC", "syncs for sets, if none is shared", 502 * 2 / 3),
        ("content machine", "content", 8.64),
        ("content machine", "content files", 288),
        ("network", "from the web", 0.192),
        ("network", "notifications", 3.84),
        ("network", "to content users", 0.48),
    ):
        assert amount(part, what, EASY, EASY_COSTS) == pytest.approx(expected), what


def test_no_line_is_there_twice_and_every_figure_counts() -> None:
    lines = needs(EASY, EASY_COSTS)
    assert len({(need.part, need.what) for need in lines}) == len(lines)
    # So large that no rounding hides a figure, with central BOT-Ms, and robots that wait more than they work.
    large = attrs.evolve(EASY, kept_part=0.5, urls=1e13, page_bytes=1e6, fetch_seconds=50)
    large_costs = attrs.evolve(EASY_COSTS, row_bytes=5000)
    before = [need.amount for need in needs(large, large_costs)]
    for field in attrs.fields(Assumptions):
        changed = attrs.evolve(large, **{field.name: getattr(large, field.name) / 2})
        assert [need.amount for need in needs(changed, large_costs)] != before, field.name
    for field in attrs.fields(Costs):
        costs = attrs.evolve(large_costs, **{field.name: getattr(large_costs, field.name) * 100})
        assert [need.amount for need in needs(large, costs)] != before, field.name


@given(
    st.builds(
        Assumptions,
        urls=st.floats(1e3, 1e12),
        changes_per_day=st.floats(1e-3, 10),
        pages_per_set=st.floats(1, 1e4),
        kept_part=st.floats(0, 1),
        page_bytes=st.floats(1e2, 1e7),
        reads_by_url=st.floats(0, 1),
        https_part=st.floats(0, 1),
        busy=st.floats(0.1, 1),
        fill=st.floats(0.1, 1),
        cores=st.integers(1, 128),
    ),
    st.builds(Costs, row_bytes=st.floats(100, 10_000), qm_us=st.floats(1, 5000), bot_us=st.floats(1, 5000)),
)
def test_what_is_needed_is_enough(a: Assumptions, c: Costs) -> None:
    rates, cores, found = site(a, c)
    subs, machines = found.sub_lccs, found.content_machines
    nearly = 1 + 1e-9
    # One process has one core; each part has what it needs if all parts are alike.
    assert cores.qm / subs <= nearly
    assert (cores.qm + cores.database) / subs <= a.cores * nearly
    assert a.urls * c.row_bytes / subs <= a.database_bytes * a.fill * nearly
    assert cores.front <= found.front * nearly
    assert cores.uns <= found.uns * nearly and cores.cu <= found.cu * nearly
    assert cores.front + cores.uns + cores.cu <= found.front_machines * a.cores * nearly
    assert a.urls * a.page_bytes / machines <= a.disk_bytes * a.fill * nearly
    assert cores.botm / machines <= nearly and (cores.botm + cores.bot) / machines <= a.cores * nearly
    assert cores.bot <= found.robots * nearly
    assert rates.pages * a.fetch_seconds <= found.robots * a.robot_fetches * nearly
    # What belongs to one sub-LCC, or one machine, belongs to no other.
    assert machines % subs == found.uns % subs == found.central % subs == 0
    assert found.robots % machines == 0 and found.robots > 0
    assert (found.central > 0) == (machines > subs)
    assert cores.central <= found.central * nearly or machines == subs


def test_a_reader_can_put_in_other_figures() -> None:
    assert "| disk | content | 3 TB |" in modelled(["urls=1e9", "page_bytes=3000"])
    with pytest.raises(SystemExit, match="no such figure: pages"):
        modelled(["pages=1"])
    with pytest.raises(SystemExit, match="NAME=NUMBER"):
        modelled(["urls=many"])


def test_the_simulation_fetches_what_it_is_told_of(tmp_path: Path) -> None:
    urls = 4000
    found = simulate(tmp_path / "world", True, World(urls, 10), urls * changes_per_day() / HOURS, 2 * HOURS)
    hours = found["hours"]
    assert sum(hour["told"] for hour in hours) > urls * changes_per_day()
    assert hours[-1]["queued"] < 10
    # A page that is told again while it is queued is fetched once.
    fetched = sum(hour["fetched"] for hour in hours)
    assert 0.9 * sum(hour["told"] for hour in hours) <= fetched <= sum(hour["told"] for hour in hours)
    assert found["costs"]["record"]["items"] == fetched
    assert found["costs"]["delete files"]["items"] == fetched
    middle = found["middle"]
    assert not any(hour["fetched"] for hour in hours[middle : middle + 6])
    assert hours[middle + 5]["queued"] > 0
    seen, reckoned = drained_after(found)
    assert abs(seen - reckoned) <= 3
    assert 0 < sum(hour["sets"] for hour in hours) < sum(hour["told"] for hour in hours)
    assert found["per_page"] == {}


def test_a_server_tells_what_a_page_costs_it(tmp_path: Path, mariadb: PrivateMariaDb) -> None:
    """``simulate`` starts a server of its own; the fixture is there for those who have none."""
    urls = 2000
    found = simulate(tmp_path / "world", False, World(urls, 10), urls * changes_per_day() / HOURS, 2 * HOURS)
    counts = found["per_page"]
    # At least a row of the queue and one of a file to be removed come and go, and one of the cache changes.
    assert counts["inserted"] >= 2 and counts["deleted"] >= 1.5 and counts["updated"] + counts["inserted"] >= 3
    assert counts["rows read"] >= 2
    assert found["row_bytes"] > 300 and found["row_bytes_after"] >= found["row_bytes"]
    text = report([found], "the model", "abc")
    assert f"{found['row_bytes']:.0f} bytes after it was filled, {found['row_bytes_after']:.0f} after" in text
    assert "For each changed page of these: rows read " in text


def test_the_classes_are_all_pages() -> None:
    assert sum(each.hundredths for each in CLASSES) == 100
