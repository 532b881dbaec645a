"""A guard and its keeper may be killed at any operation: two hundred times, by seeds.

experiments/guard-kills/ does it to real ones on Docker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.guard_crashes")
from tests.guard_crashes import campaign  # noqa: E402

KILLS, PARTS = 200, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_left_changed_and_no_job_is_lost_or_done_twice(part: int, tmp_path: Path) -> None:
    kills, seed = 0, part * 1000
    while kills < KILLS // PARTS:
        kills += campaign(seed, tmp_path / str(seed)).kills
        seed += 1
