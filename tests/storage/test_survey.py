"""The look at the whole queue, on both databases, compared with what was put into them."""

from __future__ import annotations

from lcc.domain.fetches.timeslots import TimeSlots
from lcc.model import Delay
from lcc.model.survey import Lag, Queued, Survey
from lcc.storage.views.survey import survey
from tests.support.databases import DirectDatabase
from tests.support.queue import Queue, notice

NOW = 2_000_000_000
BOUNDS = (60.0, 3600.0)


def looked(database: DirectDatabase, top: int = 2) -> Survey:
    return database.blocking.interact(survey, NOW, top, BOUNDS)


def test_nothing_waits(queue: Queue) -> None:
    found = looked(queue.database)
    assert (found.queued, found.worst, found.oldest_seconds, found.providers) == ((), (), 0, 1)
    assert (found.lags.upto, found.lags.total) == ((0, 0, 0), 0)


def test_what_waits_and_for_how_long(queue: Queue) -> None:
    ages = {queue.pid: 30, queue.add_provider(): 60, queue.add_provider(): 600, queue.add_provider(): 7200}
    for number, pid in enumerate(ages, 1):
        queue.send(number, *[notice(f"{pid}/{each}") for each in range(number)], pid=pid)
        queue.database.now(
            lambda txn, pid=pid: txn.execute("UPDATE qpsdb SET time = ? WHERE pid = ?", [NOW - ages[pid], pid])
        )
    first = queue.pid
    found = looked(queue.database)
    assert found.queued == (Queued(1, 10, 0, 0),)
    assert found.lags.upto == (2, 3, 4) and found.lags.total == sum(ages.values())
    assert found.worst == (Lag(first + 3, 7200, 4), Lag(first + 2, 600, 3))
    assert found.oldest_seconds == 7200 and found.providers == 4
    assert looked(queue.database, top=0).worst == ()
    # A newer set of the same provider changes nothing; what waits for its hours, or to be tried again, is no lag.
    queue.send(9, notice(f"{first}/new"), now=NOW)
    queue.database.now(lambda txn: txn.execute("UPDATE qpsdb SET slot = 3 WHERE pid = ?", [first + 3]))
    queue.database.now(lambda txn: txn.execute("UPDATE qpsdb SET slot = -9 WHERE pid = ?", [first + 2]))
    found = looked(queue.database)
    assert found.queued == (Queued(1, 4, 4, 3),) and found.oldest_seconds == 60
    assert [lag.pid for lag in found.worst] == [first + 1, first]


def test_delays_and_totals(queue: Queue) -> None:
    saved = [
        Delay(queue.pid, NOW + 10.0, "hours"),
        Delay(queue.pid + 1, NOW - 1.0, "bandwidth"),
        Delay(0, NOW + 10.0, "bandwidth"),
    ]
    queue.send(1, notice("a"))
    queue.store.save_delays(saved)
    queue.database.now(
        lambda txn: txn.execute(
            "UPDATE pstats SET files_used = 5, space_used = 70, errseq = 9, errcleared = 2, wantfullset = 'x'"
            " WHERE pid = ?",
            [queue.pid],
        )
    )
    found = looked(queue.database)
    assert found.delayed == {"hours": 1}
    assert (found.files, found.space_bytes, found.errors, found.full_sets_wanted) == (5, 70, 7, 1)


def test_who_must_not_be_fetched_from_is_no_lag(queue: Queue) -> None:
    asleep, away, slow, awake = queue.pid, queue.add_provider(), queue.add_provider(), queue.add_provider()
    for number, pid in enumerate((asleep, away, slow, awake), 1):
        queue.send(number, *[notice(f"{pid}/{each}") for each in range(number)], pid=pid)
    queue.database.now(lambda txn: txn.execute("UPDATE qpsdb SET time = ?", [NOW - 500]))
    queue.store.save_delays(
        [
            Delay(asleep, NOW + 10.0, "hours"),
            Delay(away, NOW + 10.0, "site-error"),
            Delay(slow, NOW + 10.0, "bandwidth"),
            Delay(awake, NOW - 1.0, "hours"),
        ]
    )
    found = looked(queue.database, top=9)
    assert found.queued == (Queued(1, 3 + 4, 1, 2),)
    assert found.worst == (Lag(slow, 500, 3), Lag(awake, 500, 4)) and found.lags.upto == (0, 2, 2)
    queue.store.save_delays([Delay(slow, NOW + 10.0, "hours"), Delay(awake, NOW + 10.0, "site-error")])
    found = looked(queue.database)
    assert found.queued == (Queued(1, 0, 4, 6),) and found.oldest_seconds == 0 and found.worst == ()


def test_lags_of_hours_count_from_when_they_opened(queue: Queue) -> None:
    """2,000,000,000 is a Wednesday, 3:33 h in UTC."""
    slots = TimeSlots(168, 3600, "UTC")
    opened = NOW - 33 * 60 - 20
    always = queue.pid
    weekly, daily, elsewhere, starved = (
        queue.add_provider(hours="wed 3-5"),
        queue.add_provider(hours="3-6"),
        queue.add_provider(hours="5-7", timezone="Asia/Kolkata"),  # from 23:30 h on
        queue.add_provider(hours="wed 3-5"),
    )
    since = {always: NOW - 500_000, weekly: NOW - 500_000, daily: NOW - 60, elsewhere: NOW - 4 * 3600}
    since[starved] = opened - 7 * 86400 + 60  # it came a minute after they opened, a week ago
    for number, (pid, time) in enumerate(since.items(), 1):
        queue.send(number, notice(f"{pid}"), pid=pid)
        queue.database.now(
            lambda txn, pid=pid, time=time: txn.execute("UPDATE qpsdb SET time = ? WHERE pid = ?", [time, pid])
        )
    found = queue.database.blocking.interact(survey, NOW, 9, BOUNDS, slots.closed_spans)
    lags = {lag.pid: lag.seconds for lag in found.worst}
    assert lags == {
        always: 500_000,
        weekly: NOW - opened,
        daily: 60,
        elsewhere: 4 * 3600,
        starved: 7 * 86400 + NOW - opened - 60,
    }
    assert found.oldest_seconds == lags[starved] and found.lags.total == sum(lags.values())
    assert found.lags.upto[0] == 1
