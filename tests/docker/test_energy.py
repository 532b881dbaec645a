"""Energy measured on an engine: the kernel's counters of the machine and of each container are real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from framework.config.energy_file import load_energy
from tests.docker.studies import PATIENT, ROOT, TAILOR, WIDE, Disturbed, environment, left_behind_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@PATIENT
def test_the_energy_of_an_application_is_measured(home: Path, tmp_path: Path) -> None:
    kept, page = tmp_path / "energy.json", tmp_path / "energy.html"
    words = [
        *TAILOR, "energy", "apps/key-value", "--quick", "--rounds", "1", "--duration", "4s", "--warmup", "2s", "--rate",
        "200", "--power", "curve:100,300", "--io", "block", "--file", str(kept), "--page", str(page),
        *(f"--limits={name}={value}" for name, value in WIDE.items()), "--json",
    ]  # fmt: skip
    done = subprocess.run(words, env=environment(home), cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    measurement = load_energy(kept)
    windows = {window.phase: window for window in measurement.windows}
    assert windows.keys() == {"baseline", "idle", "run"}
    if any(window.invalid for window in windows.values()):
        raise Disturbed("; ".join(reason for window in windows.values() for reason in window.invalid))
    for window in windows.values():
        # A host may take time away without saying so, which these wide limits allow; more than all time is only read
        # where this process was held up between two files.
        assert window.cpu.total > 0
        if window.cpu.total > 1.05 * window.seconds * window.cpus + 0.1:
            raise Disturbed(f"{window.phase}: {window.cpu.total} s in the states of {window.seconds} s of each CPU")
        assert window.whole is not None
        assert 99.0 <= window.whole.value / window.seconds <= 301.0
        assert "device" in window.io
        assert (window.control_s or 0.0) > 0
    assert not windows["baseline"].services
    used = windows["run"].services
    assert used.keys() >= {"key-value", "redis", "memcached"}
    assert used["key-value"].cpu_s > windows["idle"].services["key-value"].cpu_s
    assert used["key-value"].io["application"].operations > 0, "its replies, at least"
    assert sum(service.cpu_s for service in used.values()) <= windows["run"].cpu.busy * 1.05 + 0.1
    answer = json.loads(done.stdout)
    assert answer["label"] == "estimated"
    [run] = answer["runs"]
    active = [row["active_j"]["value"] for row in run["services"]] + [
        part["value"] for part in run["others_j"].values()
    ]
    # Beside other tests, one baseline may take more power than the load: the active part is then below 0, and adds up.
    assert run["idle_j"]["value"] + sum(active) == pytest.approx(run["whole_j"]["value"])
    assert run["whole_j"]["value"] > 0
    assert "estimated, not measured" in page.read_text()
    assert left_behind_of(home) == []


def test_the_bytes_that_a_program_says_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    """fio's own account of what it wrote, within 1 % of the kernel's: the check builds its image, and runs it alone."""
    kept = tmp_path / "pieces.json"
    check = ROOT / "experiments" / "energy" / "workloads" / "check"
    words = [sys.executable, str(check), "--only", "checkpoint", "--results", str(kept)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    for piece in json.loads(kept.read_text())["checkpoint"]:
        assert piece["application_written"] == pytest.approx(piece["account"]["written"], rel=0.01)
        assert piece["device_written"] >= 0.95 * piece["account"]["written"], "others may write too"
        assert piece["user_s"] + piece["system_s"] > 0
