"""The picture of a machine: every CPU and every service is in it, inside its frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from framework.model.cpus import write_cpus
from framework.report.machine_picture import described, machine_picture
from framework.testbeds.host.topology import read_topology
from tests.unit.test_placement_topology import CASES, case, sysfs

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_cpu_and_service_is_shown(path: Path, tmp_path: Path) -> None:
    topology = read_topology(sysfs(case(path), tmp_path))
    half = len(topology.numbers) // 2
    domains = [write_cpus(part) for part in (topology.numbers[:half], topology.numbers[half:]) if part]
    services = {f"service-<{number}>": domains[number % len(domains)] for number in range(20)} | {"jaeger": "all"}
    drawn = ET.fromstring(machine_picture(topology, services, "a & b"))
    texts = [element.text or "" for element in drawn.iter(f"{SVG}text")]
    assert sorted(int(text) for text in texts if text.isdigit()) == list(topology.numbers)
    assert set(services) <= set(re.split(r", ", ", ".join(texts)))
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    for box in drawn.iter(f"{SVG}rect"):
        if "x" in box.attrib:
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
    assert str(len(topology.groups("core"))) in described(topology)
