"""A scheduler that polls the queue of a real queue manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scheduler.polls.polling import Polling


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Polling]:
    bench = Polling(tmp_path)
    bench.start()
    yield bench
    bench.engine.stop()
    bench.database.blocking.close()
    bench.queue.database.blocking.close()
