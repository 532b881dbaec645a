"""Five things that happen to a guard, with a fixed seed; experiments/guard-kills/ has the campaign of hundreds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docker.guard_kills import Campaign
from tests.docker.guard_scene import Stack, latencies

pytestmark = [
    pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(1200), pytest.mark.usefixtures("compose_2"),
]  # fmt: skip

HAPPENS = ("guard", "guard and keeper", "in the end", "LC", "job")


def test_nothing_is_left_changed_and_every_job_is_done_once(tmp_path: Path) -> None:
    stack = Stack(tmp_path, f"guard-kills-{os.getpid()}")
    try:
        with latencies() as where, Campaign(tmp_path / "home", stack, where, seed=1, engine=False) as campaign:
            happened = [campaign.happen(number, kind) for number, kind in enumerate(HAPPENS)]
            end = campaign.end()
    finally:
        stack.down()
    assert [row for row in happened if row["problems"]] == []
    assert end["problems"] == []
    assert end["finished"] == end["jobs"] > 0
