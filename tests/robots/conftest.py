"""What the tests of the robots share."""

from pathlib import Path

import pytest

from tests.support.roles.botm import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
