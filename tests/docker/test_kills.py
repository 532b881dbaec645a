"""Ten kills with fixed seeds; experiments/kills/ has the campaign of hundreds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import Campaign
from tests.databases import Server

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

SEEDS = (1, 2, 3)


def test_nothing_is_lost_nor_twice(tmp_path: Path) -> None:
    with Server() as server:
        campaign = Campaign(tmp_path, server.url, server.kill)
        try:
            studies = campaign.run(SEEDS, kills=10, seed=1)
        finally:
            campaign.stop()
        assert campaign.recorded(studies) == campaign.undisturbed(SEEDS)
