"""The guide to your own application: the walk through WordPress is what happens."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docker.studies import PATIENT, ROOT, tailor

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), PATIENT]

GUIDE = (ROOT / "docs" / "guides" / "your-own-application.md").read_text()
WALK = GUIDE[GUIDE.index("## An example: WordPress") :]
WORDPRESS = ROOT / "experiments" / "adopt" / "wordpress"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """WordPress, with the certificates that this machine was told to trust: its build downloads."""
    directory = tmp_path / "wordpress"
    shutil.copytree(WORDPRESS / "app", directory)
    trusted = os.environ.get("SSL_CERT_FILE", "")
    if Path(trusted).is_file():
        shutil.copy(trusted, directory / "certificates.crt")
    return directory


def test_the_walk_is_what_happens(shop: Path, home: Path) -> None:
    document = json.loads(tailor(home, "init", str(shop), "--yes", "--json").stdout)
    services, proof = document["proposal"]["services"], document["proof"]
    said = dict(re.findall(r"(\w+)  ([\w-]+) certain: ", WALK))
    assert said == {name: service["type"]["type"] for name, service in services.items() if service["type"]}
    assert said
    grades = dict(re.findall(r"(?m)^(\w+\.\w+) .* (proven|passed|ineffective|refused)$", WALK))
    assert grades == {knob["name"]: knob["grade"] for knob in proof["knobs"]}
    assert proof["failed"] == 0

    workload = (WORDPRESS / "tailor" / "workload.yaml").read_text()
    assert workload in WALK
    (shop / "tailor" / "workload.yaml").write_text(workload)
    findings = json.loads(tailor(home, "doctor", str(shop / "tailor"), "--json").stdout)
    assert not [finding for finding in findings if finding["needed"] and "missing" in finding.values()]
    short = ("--iterations", "1", "--repetitions", "1", "--duration", "4s", "--pairs", "0")
    limits = ("--limits=errors=0.5", "--limits=generator_lag=10", "--limits=stolen_cpu=0.99")
    study = json.loads(tailor(home, "tune", str(shop / "tailor"), *short, *limits, "--rate", "5", "--json").stdout)
    assert study["trials"] == {"completed": 2}
    files = shop.parent / "best"
    tailor(home, "best", study["study"], "--output", str(files))
    assert (files / "compose.yaml").is_file()
