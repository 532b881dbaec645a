"""Loopback addresses that stand for containers: taken once, and free again when a deployment is gone."""

from __future__ import annotations

import socket

from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine
from framework.testbeds.swarm.relay import Relay


def relay() -> Relay:
    return Relay(Engine(endpoint="unix:///nowhere.sock"), Connection(attempts=1, endpoint="unix:///nowhere.sock"), "c")


def test_two_deployments_never_share_an_address() -> None:
    first, second = relay(), relay()
    try:
        addresses = {way.address(remote) for way in (first, second) for remote in ("10.0.1.2", "10.0.1.3")}
        assert len(addresses) == 4
        assert first.address("10.0.1.2") == first.address("10.0.1.2")
    finally:
        first.close()
        second.close()


def test_a_port_can_be_opened_again_right_after_a_connection() -> None:
    for _ in range(3):
        way = relay()
        try:
            way.open("10.0.1.2", [8080])
            with socket.create_connection((way.address("10.0.1.2"), 8080), timeout=10) as connection:
                assert connection.recv(1) == b"", "no engine carries it: the connection ends"
        finally:
            way.close()
