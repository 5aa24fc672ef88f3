"""Metrics as Prometheus reads them: its text format, or OpenMetrics where it asks for that.

The registry is one of our own, and empty but for this process; prometheus_client's global one is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lcc.model.metrics import Buckets, Kind, Metric, Reading


class ReadingsCollector(Collector):
    """Takes readings at each scrape.

    :param readings: gives them; a metric may come more than once.
    """

    def __init__(self, readings: Callable[[], Iterable[Reading]]) -> None:
        self._readings = readings

    def describe(self) -> Iterable[MetricFamily]:
        """Nothing: nobody else is in the registry."""
        return ()

    def collect(self) -> Iterator[MetricFamily]:
        """For prometheus_client."""
        families: dict[Metric, MetricFamily] = {}
        for reading in self._readings():
            family = families.get(reading.metric)
            if family is None:
                family = families[reading.metric] = _family(reading.metric)
            for labels, value in reading.series:
                _add(family, reading.metric, labels, value)
        yield from families.values()


def _family(metric: Metric) -> MetricFamily:
    labels = list(metric.labels)
    if metric.kind is Kind.COUNTER:
        return CounterMetricFamily(metric.name, metric.meaning, labels=labels)
    if metric.kind is Kind.INFO:
        return InfoMetricFamily(metric.name, metric.meaning, labels=[])
    if metric.kind is Kind.HISTOGRAM:
        return HistogramMetricFamily(metric.name, metric.meaning, labels=labels)
    if metric.kind is Kind.GAUGE_HISTOGRAM:
        return GaugeHistogramMetricFamily(metric.name, metric.meaning, labels=labels)
    return GaugeMetricFamily(metric.name, metric.meaning, labels=labels)


def _add(family: MetricFamily, metric: Metric, labels: tuple[str, ...], value: float | Buckets) -> None:
    # What no UTF-8 can carry (half a surrogate pair) must not cost the whole scrape.
    values = [label.encode("utf-8", "replace").decode("utf-8") for label in labels]
    if isinstance(value, Buckets):
        assert isinstance(family, HistogramMetricFamily | GaugeHistogramMetricFamily)
        bounds = (*value.bounds, inf)
        buckets = [(floatToGoString(bound), float(count)) for bound, count in zip(bounds, value.upto, strict=True)]
        family.add_metric(values, buckets, value.total)
    elif isinstance(family, InfoMetricFamily):
        family.add_metric([], dict(zip(metric.labels, values, strict=True)))
    else:
        assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
        family.add_metric(values, float(value))


class Exposition:
    """The answer to a scrape.

    :param readings: as of :class:`ReadingsCollector`.
    """

    def __init__(self, readings: Callable[[], Iterable[Reading]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ReadingsCollector(readings))
        ProcessCollector(registry=self._registry)

    def text(self, accept: str) -> tuple[str, bytes]:
        """The media type, and the text in it.

        :param accept: the header field of the request.
        """
        encode, media_type = choose_encoder(accept)
        return media_type, encode(self._registry)
