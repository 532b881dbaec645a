"""A node that is measured on an engine, and planned with: CPU sets, counters and the knee are real."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.docker.studies import PATIENT, ROOT, TAILOR, WIDE, Disturbed, environment, left_behind_of

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(900)]
NEED = """kind: need
version: 1
name: a small store
reads: 500/s
stored: 1GB
record: 1KiB
"""


@PATIENT
def test_an_application_is_swept_and_planned_with(home: Path, tmp_path: Path) -> None:
    need, kept = tmp_path / "need.yaml", tmp_path / "node.json"
    need.write_text(NEED)
    words = [
        *TAILOR, "plan", str(need), "--measure", "apps/key-value", "--testbed", "docker", "--quick", "--cores", "1",
        "--duration", "2s", "--node-file", str(kept), "--top", "1",
        *(f"--limits={name}={value}" for name, value in WIDE.items()), "--json",
    ]  # fmt: skip
    done = subprocess.run(words, env=environment(home), cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert kept.exists(), done.stdout + done.stderr
    node = json.loads(kept.read_text())
    [point] = node["points"]
    if "disturbed" in point["statement"] and "take effect" not in point["statement"]:
        raise Disturbed(point["statement"])
    if done.returncode and "the load generator kept" in done.stderr:  # others ran on the core that was left for it
        raise Disturbed(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert point["knee_rps"] > 0
    assert point["cpu_s"].keys() == {"key-value", "memcached", "redis"}
    assert (node["application"], node["operations"]) == ("key-value-throughput", 16), "its closed loop, of bursts"
    assert 0 < point["cpu_s"]["key-value"] < 0.1
    assert point["memory_bytes"]["key-value"] > 2**20
    assert point["received_bytes"] > 100
    assert json.loads(done.stdout)["plans"]["plans"]
    assert left_behind_of(home) == []
