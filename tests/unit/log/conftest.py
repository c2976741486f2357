"""What the tests of the log share."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.sim.disk import SimDisk


@pytest.fixture
def sim_disk() -> SimDisk:
    """A disk whose power can fail."""
    return SimDisk(Random(0))
