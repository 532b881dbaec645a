"""The guide's server type works from its file alone, and the guide shows that file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.service_type_file import Role
from framework.config.space import search_space
from optimizer.space import Configuration

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "cases" / "good" / "haproxy"
GUIDE = (ROOT / "docs" / "guides" / "add-a-server-type.md").read_text()


def test_the_guide_shows_the_tested_file() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert blocks == [(EXAMPLE / "search_spaces" / "haproxy-stats.yaml").read_text()]


def test_no_code_mentions_it() -> None:
    code = [*ROOT.glob("framework/**/*.py"), *ROOT.glob("optimizer/**/*.py")]
    assert code
    assert not [path for path in code if "haproxy" in path.read_text().lower()]


def test_it_is_tuned_and_rendered() -> None:
    application = load_application(EXAMPLE)
    types = resolved(load_service_types([EXAMPLE / "search_spaces"]), cores=4, memory_mib=8192)
    space = search_space(application, types, cores=4, memory_mib=8192, only=["front"])
    assert space.names == ("front.threads", "front.http_reuse", "front.buffer_bytes")
    configuration = Configuration({"front.threads": 3, "front.http_reuse": "always", "front.buffer_bytes": 32768})
    deployment = render(application, types, configuration, project="p", labels={})
    lines = deployment.files["files/front/usr-local-etc-haproxy-haproxy.cfg"].splitlines()
    assert lines[:4] == [
        "global",
        "    tune.bufsize 32768",
        "    nbthread 3",
        "    stats socket ipv4@*:9999 level user",
    ]
    assert lines[lines.index("defaults") + 1] == "    http-reuse always"
    assert {e.parameter: e.value for e in deployment.expectations if e.service == "front"} == {
        "threads": 3, "http_reuse": "always", "buffer_bytes": 32768,
    }  # fmt: skip


def test_the_guide_lists_every_role() -> None:
    listed = re.search(r"\| `role` \|([^|]*)\|", GUIDE)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(get_args(Role))
