"""What leads out of a container is found, however it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.compose.safety import unsafe
from framework.config import load_application

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ({"privileged": True}, "services.a.privileged"),
        ({"privileged": "true"}, "services.a.privileged"),
        ({"network_mode": "host"}, "services.a.network_mode: host"),
        ({"pid": "host"}, "services.a.pid: host"),
        ({"network_mode": "container:other"}, "services.a.network_mode: container:other"),
        ({"devices": ["/dev/sda:/dev/sda"]}, "services.a.devices"),
        ({"cap_add": ["SYS_ADMIN"]}, "services.a.cap_add"),
        ({"security_opt": ["seccomp:unconfined"]}, "services.a.security_opt"),
        ({"volumes": ["/:/host"]}, "services.a.volumes: /"),
        ({"volumes": ["../../etc:/etc"]}, "services.a.volumes: ../../etc"),
        ({"volumes": ["./x/../../y:/y"]}, "services.a.volumes: ./x/../../y"),
        ({"volumes": ["${HOME}:/home"]}, "services.a.volumes: ${HOME}"),
        ({"volumes": ["~/.ssh:/ssh"]}, "services.a.volumes: ~/.ssh"),
        ({"volumes": [{"type": "bind", "source": "/etc", "target": "/etc"}]}, "services.a.volumes: /etc"),
        ({"volumes": ["/var/run/docker.sock:/s"]}, "services.a.volumes: /var/run/docker.sock"),
        ({"env_file": "/etc/passwd"}, "services.a.env_file"),
    ],
)
def test_ways_out(tmp_path: Path, service: dict[str, Any], says: str) -> None:
    assert unsafe({"services": {"a": service}}, tmp_path) == [says]


def test_sources_of_volumes_and_secrets(tmp_path: Path) -> None:
    compose = {
        "services": {},
        "volumes": {"v": {"driver_opts": {"type": "none", "o": "bind", "device": "/"}}, "w": None},
        "secrets": {"s": {"file": "/etc/shadow"}, "t": {"file": "./here"}},
    }
    assert unsafe(compose, tmp_path) == ["volumes.v.driver_opts", "secrets.s.file: /etc/shadow"]


def test_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert unsafe({"services": {"a": {"volumes": ["./link:/etc"]}}}, tmp_path) == ["services.a.volumes: ./link"]


@pytest.mark.parametrize("name", ["social-network", "url-shortener"])
def test_our_applications_may_be_launched(name: str) -> None:
    application = load_application(ROOT / "apps" / name)
    assert unsafe(application.compose, application.directory) == []
    assert unsafe({"services": {"a": {"volumes": ["data:/data", "./conf:/conf:ro"]}}}, application.directory) == []
