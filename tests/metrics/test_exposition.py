"""What a scrape says: read again by Prometheus' own client library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from lcc.metrics.exposition import Exposition
from lcc.model.metrics import Buckets, Histogram, Kind, Metric, Reading, counter, gauge, histogram

THINGS = counter("lcc_test_things", "Things", "who")
SIZE = gauge("lcc_test_size_bytes", 'With a "quote", a \\ and\na line')
SECONDS = histogram("lcc_test_seconds", "How long", "result")
BUILD = Metric(Kind.INFO, "lcc_test_build", "What it is", ("version",))
NOW = Metric(Kind.GAUGE_HISTOGRAM, "lcc_test_now_seconds", "As it is now")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scraped(*readings: Reading, accept: str = "") -> dict[str, Any]:
    """Family -> its samples, as ``{(name, labels): value}``."""
    media_type, text = Exposition(lambda: readings).text(accept)
    assert ("openmetrics" in media_type) == bool(accept)
    families = (parse_openmetrics if accept else parse_text)(text.decode())
    return {
        family.name: {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for family in families
    }


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_each_kind_is_read_again(accept: str) -> None:
    lags = Histogram((0.5, 1.0))
    for seconds in (0.1, 0.5, 0.7, 30.0):
        lags.add(seconds)
    found = scraped(
        THINGS.by({"a": 1}),
        SIZE(2.5),
        SECONDS.by({"stored": lags.shown()}),
        BUILD.by({"1.0": 1}),
        NOW(Buckets((1.0,), (2, 3), 7.5)),
        THINGS.by({"b": 2}),  # of another role
        accept=accept,
    )
    assert found["lcc_test_things"] == {
        ("lcc_test_things_total", ("who", "a")): 1,
        ("lcc_test_things_total", ("who", "b")): 2,
    }
    assert found["lcc_test_size_bytes"] == {("lcc_test_size_bytes",): 2.5}
    assert found["lcc_test_seconds"] == {
        ("lcc_test_seconds_bucket", ("le", "0.5"), ("result", "stored")): 2,
        ("lcc_test_seconds_bucket", ("le", "1.0"), ("result", "stored")): 3,
        ("lcc_test_seconds_bucket", ("le", "+Inf"), ("result", "stored")): 4,
        ("lcc_test_seconds_count", ("result", "stored")): 4,
        ("lcc_test_seconds_sum", ("result", "stored")): pytest.approx(31.3),
    }
    assert [key[-1] for family in found.values() for key in family if key[0] == "lcc_test_build_info"] == [
        ("version", "1.0")
    ]
    assert found["lcc_test_now_seconds"][("lcc_test_now_seconds_bucket", ("le", "1.0"))] == 2
    assert found["process_resident_memory_bytes"][("process_resident_memory_bytes",)] > 1e6


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_breaks_out_of_its_place(one: str, other: str) -> None:
    """Names of robots and machines come from elsewhere."""
    for accept in ("", OPENMETRICS):
        found = scraped(THINGS.by([(one, 1)]), SIZE(1), accept=accept)
        assert found["lcc_test_things"] == {("lcc_test_things_total", ("who", one)): 1}
        text = Exposition(lambda: [THINGS.by([(other, 1)])]).text(accept)[1].decode()
        assert len([line for line in text.split("\n") if line.startswith("lcc_test_things_total")]) == 1


@pytest.mark.parametrize(
    "name", ['"} 5\nlcc_test_other 1', "a\\", "\r\n", "\0\x1b[31m", "ünïcode", "\N{LINE SEPARATOR}"]
)
def test_hostile_names(name: str) -> None:
    assert scraped(THINGS.by([(name, 1)]))["lcc_test_things"] == {("lcc_test_things_total", ("who", name)): 1}


def test_what_cannot_be_written_as_utf_8_does_not_cost_the_scrape() -> None:
    assert scraped(THINGS.by([("half \ud800", 1)]))["lcc_test_things"] == {
        ("lcc_test_things_total", ("who", "half ?")): 1
    }


def test_a_metric_without_series_is_named_all_the_same() -> None:
    assert scraped(THINGS.by(()))["lcc_test_things"] == {}


def test_the_global_registry_is_not_used() -> None:
    from prometheus_client import REGISTRY, Counter

    def unregistered() -> Iterator[Reading]:
        yield SIZE(1)

    Counter("lcc_test_elsewhere", "of somebody else in this process")
    _, text = Exposition(unregistered).text("")
    assert b"elsewhere" not in text
    assert not [family for family in REGISTRY.collect() if family.name == "lcc_test_size_bytes"]
