"""The hotel reservation as a user tunes it: no code of Tailor knows it, and nobody is booked twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docker.studies import PATIENT, ROOT, WIDE, left_behind, tailor, trials_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), PATIENT]


def test_it_is_tuned_like_any_application(home: Path) -> None:
    limits = [f"--limits={name}={value}" for name, value in WIDE.items()]
    said = tailor(
        home, "tune", str(ROOT / "apps" / "hotel-reservation"), "--optimizer", "random", "--iterations", "1",
        "--repetitions", "1", "--duration", "3s", "--warm-up", "1s", "--pairs", "0", "--drift-every", "0",
        "--rate", "100", *limits, "--json",
    )  # fmt: skip
    document = json.loads(said.stdout)
    assert document["state"] == "completed"
    trials = trials_of(home, document["study"])
    purposes = [trial["purpose"] for trial in trials]
    assert set(purposes) == {"default", "search"}  # the default again where its runs ask for a longer warm-up
    assert purposes.count("search") == 1
    for trial in trials:  # the check after the load searches, and reserves more rooms than there are
        assert trial["state"] == "completed", trial["reason"]
        [measurement] = trial["measurements"]
        assert measurement["spans_created"] == measurement["spans_read"] > 0
        assert measurement["failed_requests"] == 0
        assert {"frontend", "search", "geo", "rate", "profile", "recommendation"} <= {
            service["service"] for service in measurement["services"]
        }
    assert left_behind(document["study"]) == []
