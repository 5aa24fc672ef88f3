"""Figures as Prometheus reads them: its text format, or OpenMetrics where it asks for that.

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
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lcc.model.metrics import Buckets, Figure, Kind, Reading


class FiguresCollector(Collector):
    """Asks for the figures at each scrape.

    :param figures: gives them; a figure may come more than once.
    """

    def __init__(self, figures: Callable[[], Iterable[Reading]]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Nothing: nobody else is in the registry."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client has it."""
        families: dict[Figure, Metric] = {}
        for reading in self._figures():
            family = families.get(reading.figure)
            if family is None:
                family = families[reading.figure] = _family(reading.figure)
            for labels, value in reading.series:
                _add(family, reading.figure, labels, value)
        yield from families.values()


def _family(figure: Figure) -> Metric:
    labels = list(figure.labels)
    if figure.kind is Kind.COUNTER:
        return CounterMetricFamily(figure.name, figure.meaning, labels=labels)
    if figure.kind is Kind.INFO:
        return InfoMetricFamily(figure.name, figure.meaning, labels=[])
    if figure.kind is Kind.HISTOGRAM:
        return HistogramMetricFamily(figure.name, figure.meaning, labels=labels)
    if figure.kind is Kind.GAUGE_HISTOGRAM:
        return GaugeHistogramMetricFamily(figure.name, figure.meaning, labels=labels)
    return GaugeMetricFamily(figure.name, figure.meaning, labels=labels)


def _add(family: Metric, figure: Figure, labels: tuple[str, ...], value: float | Buckets) -> None:
    # What no UTF-8 can carry (half a surrogate pair) must not cost the whole scrape.
    values = [label.encode("utf-8", "replace").decode("utf-8") for label in labels]
    if isinstance(value, Buckets):
        assert isinstance(family, HistogramMetricFamily | GaugeHistogramMetricFamily)
        bounds = (*value.bounds, inf)
        buckets = [(floatToGoString(bound), float(count)) for bound, count in zip(bounds, value.upto, strict=True)]
        family.add_metric(values, buckets, value.total)
    elif isinstance(family, InfoMetricFamily):
        family.add_metric([], dict(zip(figure.labels, values, strict=True)))
    else:
        assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
        family.add_metric(values, float(value))


class Exposition:
    """What is answered to a scrape.

    :param figures: as of :class:`FiguresCollector`.
    """

    def __init__(self, figures: Callable[[], Iterable[Reading]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(FiguresCollector(figures))
        ProcessCollector(registry=self._registry)

    def text(self, accept: str) -> tuple[str, bytes]:
        """The media type, and the text in it.

        :param accept: the header field of the request.
        """
        encode, media_type = choose_encoder(accept)
        return media_type, encode(self._registry)
