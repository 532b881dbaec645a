"""One fault of each kind on the nodes of a swarm; experiments/node-faults/ has the campaign of a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.node_faults import AWAY_S, DISK_MIB, HOSTS, MANAGERS, Campaign
from tests.swarm_nodes import Nodes

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(1500), pytest.mark.usefixtures("namespaces")]


def test_no_finished_trial_is_lost_and_nothing_is_left(tmp_path: Path) -> None:
    with Nodes(len(HOSTS), mib=DISK_MIB, managers=MANAGERS) as nodes:
        nodes.label(HOSTS)
        with Campaign(nodes, tmp_path) as campaign:
            happened = [campaign.happen(number, kind) for number, kind in enumerate(AWAY_S)]
            end = campaign.end()
    assert [(row["kind"], row["problems"]) for row in happened if row["problems"]] == []
    assert end["problems"] == []
    assert end["finished_trials"] > len(AWAY_S)
