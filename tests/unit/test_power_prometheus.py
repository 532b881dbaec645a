"""Watts that a Prometheus server has scraped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import FieldError, Transient
from framework.model.energy import CpuTimes
from framework.ports.energy import PowerSource
from framework.ports.metric_server import MetricValue
from framework.telemetry.latency.pages import Pages
from framework.telemetry.prometheus_server import PrometheusServer
from framework.testbeds.host.power.opening import open_source
from framework.testbeds.host.power.prometheus import STALE_S
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine
from tests.spoilt_files import PEOPLE

QUERY = 'plug_power_watts{plug="server"}'


class Server:
    """A server of one value."""

    shown = "http://prometheus:9090"

    def __init__(self, address: str) -> None:
        self.address, self.value, self.closed = address, MetricValue(100.0, 0.0), 0

    def newest(self, query: str) -> MetricValue:
        assert query == QUERY
        return self.value

    def close(self) -> None:
        self.closed += 1


class Scraped:
    """A plug that the server scrapes at every step."""

    def __init__(self, directory: Path) -> None:
        self.machine, self.scrapes = PretendMachine(directory), True
        self.server = Server("")
        self.server.value = MetricValue(100.0, self.machine.now())

    def source(self) -> PowerSource:
        here = replace(self.machine.surroundings(), metrics=lambda address: self.server)
        return open_source(f"prometheus:http://prometheus:9090#{QUERY}", here)

    def lacking(self) -> PowerSource:
        return open_source(f"prometheus:http://prometheus:9090#{QUERY}", self.machine.surroundings())

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        at = self.machine.pass_time(seconds)
        if self.scrapes:
            self.server.value = MetricValue(watts, self.machine.now())
        return at

    def spoil(self) -> None:
        self.scrapes = False
        self.machine.pass_time(STALE_S)

    def mend(self) -> None:
        self.scrapes = True


class TestPrometheus(PowerSourceContract):
    name = "prometheus"

    def world(self, directory: Path) -> PowerWorld:
        return Scraped(directory)


def test_the_server_is_opened_at_the_address_and_closed(tmp_path: Path) -> None:
    opened: list[Server] = []
    machine = PretendMachine(tmp_path)

    def metrics(address: str) -> Server:
        opened.append(Server(address))
        return opened[-1]

    source = open_source(f"prometheus: http://a:1 # {QUERY}", replace(machine.surroundings(), metrics=metrics))
    source.close()
    assert [(server.address, server.closed) for server in opened] == [("http://a:1", 1)]


@pytest.mark.parametrize("argument", ["", "http://a:1", "http://a:1#", "#up", "#"])
def test_an_address_and_a_query_are_given(tmp_path: Path, argument: str) -> None:
    with pytest.raises(FieldError, match="power"):
        open_source(f"prometheus:{argument}", PretendMachine(tmp_path).surroundings())


class Answers(Pages):
    """A server that answers queries with texts."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.url = httpx.URL("http://127.0.0.1:1")  # and no client: nothing is asked
        self.answers = answers

    def get(self, path: str = "", query: Mapping[str, str] | None = None, accept: str = "application/json") -> bytes:
        assert path == "/api/v1/query"
        try:
            return self.answers[(query or {})["query"]].encode()
        except KeyError:
            raise Transient("no answer") from None

    def close(self) -> None:
        """Nothing to let go of."""


def reply(*values: object) -> str:
    return json.dumps({"data": {"result": [{"metric": {}, "value": [1e9, str(value)]} for value in values]}})


def server(answers: Mapping[str, str]) -> PrometheusServer:
    return PrometheusServer("", Answers(answers))


def test_the_value_of_a_query_has_the_time_of_its_scrape() -> None:
    assert server({"up": reply(42.5), "timestamp(up)": reply(123)}).newest("up") == MetricValue(42.5, 123.0)


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"up": reply(), "timestamp(up)": reply()},
        {"up": reply(1, 2), "timestamp(up)": reply(1, 2)},
        {"up": reply(1)},
        {"up": reply("NaN"), "timestamp(up)": reply(1)},
        {"up": reply("+Inf"), "timestamp(up)": reply(1)},
        {"up": reply("a"), "timestamp(up)": reply(1)},
        {"up": "<html>", "timestamp(up)": "<html>"},
    ],
)
def test_an_answer_without_one_value_is_none(answers: Mapping[str, str]) -> None:
    with pytest.raises(Transient):
        server(answers).newest("up")


def test_an_address_that_is_none_is_a_fault_of_the_power_source() -> None:
    with pytest.raises(FieldError) as refused:
        PrometheusServer("ftp://user:secret@host")
    assert refused.value.field == "power"
    assert "secret" not in str(refused.value)


@settings(PEOPLE, max_examples=100)
@given(text=st.one_of(st.text(max_size=60), st.sampled_from([reply(1e300), reply(-5), reply(1, 2), "{}", "[]"])))
def test_hostile_answers_give_no_absurd_number(tmp_path: Path, text: str) -> None:
    machine = PretendMachine(tmp_path)
    here = replace(
        machine.surroundings(),
        metrics=lambda address: server({"up": text, "timestamp(up)": reply(machine.now())}),
    )
    source = open_source("prometheus:http://a:1#up", here)
    assert "\n" not in source.missing()
    for _ in range(3):
        for joules in source.read(*machine.pass_time(1)).values():
            assert 0 <= joules.value < 30_000
