"""Texts that name a source of latencies, their errors, the guide, and the sensor that asks in the background."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from framework.errors import FieldError, InputError, Transient
from framework.model.guard import READINGS
from framework.telemetry.latency import latency_source
from framework.telemetry.latency.pages import LARGEST, Pages
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.selector import Selector, read_selector, unit_ms
from framework.telemetry.latency.source import GIVES, IDLE, BackgroundSensor, Place, without_password
from framework.telemetry.latency.text import read_text
from tests.unit.test_traces_jaeger import served

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "guard-sensors.md").read_text()
NAMES = ("access-log", "jaeger", "metrics", "prometheus")
EXAMPLES = [
    *re.findall(r"^\| [^|]+ \| `([^`]+)` \|", GUIDE, flags=re.MULTILINE)[:4],
    *re.findall(r"^    (\S+=\S.*)$", GUIDE, flags=re.MULTILINE),
]
WAIT_S = 60.0  # for another thread; only a broken one takes that long


def test_the_sources_are_registered() -> None:
    assert sorted(SOURCES.names()) == sorted(NAMES)


def test_the_guide_has_an_example_of_every_source_with_and_without_options() -> None:
    assert len(EXAMPLES) == 8
    assert {re.split(r"[\[=]", example)[0] for example in EXAMPLES[:4]} == set(NAMES)
    assert {re.split(r"[\[=]", example)[0] for example in EXAMPLES[4:]} == set(NAMES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_guide_makes_a_source(example: str) -> None:
    name, place = read_text(example, 0.95)
    source = SOURCES.get(name)(place)
    source.close()
    assert source.window_s == float(place.options.get("window", source.window_s))
    assert 0.1 <= source.period_s <= source.window_s


def test_the_guide_names_the_windows_that_are_the_defaults() -> None:
    windows = []
    for example in EXAMPLES[:4]:
        name, place = read_text(example, 0.95)
        source = SOURCES.get(name)(place)
        source.close()
        windows.append(f"{source.window_s:g} s")
    assert ", ".join(windows) + " (in the order above)" in GUIDE


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", "NAME=PLACE"),
        ("prometheus", "NAME=PLACE"),
        ("prometheus=", "NAME=PLACE"),
        ("statsd=localhost", "access-log, jaeger, metrics, prometheus"),
        ("prometheus=http://h:9090", "a histogram's name"),
        ("prometheus=http://h:9090#", "a histogram's name"),
        ("prometheus=h:9090#x_seconds", "http://127.0.0.1:9090"),
        ("prometheus=ftp://h/#x_seconds", "http://127.0.0.1:9090"),
        ("prometheus=http://h:99999999#x_seconds", "the address of a Prometheus server"),
        ("prometheus=http://h:9090#latency", "unit: s, ms, us, ns"),
        ("prometheus[unit=h]=http://h:9090#x_seconds", "unit: s, ms, us, ns"),
        ('prometheus=http://h:9090#x_seconds{le="1"}', "other than le"),
        ("prometheus=http://h:9090#x_seconds{a=b}", "a histogram such as"),
        ('prometheus=http://h:9090#x_seconds{a=~"("}', "regular expressions"),
        ("prometheus=http://h:9090#x_seconds[5m]) or vector(0", "a histogram such as"),
        ("prometheus[lag=1]=http://h:9090#x_seconds", "the options unit, window"),
        ("metrics[window=0]=http://h/metrics#x_seconds", "a number from 0.2 to 3600"),
        ("metrics[window=nan]=http://h/metrics#x_seconds", "a number from 0.2 to 3600"),
        ("metrics[window]=http://h/metrics#x_seconds", "option=value"),
        ("jaeger=http://h:16686", "a service's name"),
        ("jaeger[limit=0]=http://h:16686#s", "a number from 1 to 1500"),
        ("access-log=x#(", "a regular expression"),
        ("access-log=x#(?P<minutes>.)", "seconds, ms, us"),
        ("access-log=x#(?P<ms>.)(?P<us>.)", "one of the groups"),
    ],
)
def test_a_bad_text_names_the_field_and_the_remedy(text: str, allowed: str) -> None:
    with pytest.raises(FieldError) as caught:
        latency_source(text, 0.95)
    assert caught.value.field == "latency"
    assert allowed in caught.value.allowed


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("name", ["prometheus", "metrics", "jaeger"])
def test_a_place_that_does_not_answer_at_the_start_is_an_input_error(name: str, closed_port: int) -> None:
    with pytest.raises(InputError) as caught:
        latency_source(f"{name}=http://reader:secret@127.0.0.1:{closed_port}/x#a_seconds", 0.95)
    assert f"127.0.0.1:{closed_port}" in str(caught.value.found)
    assert "that answers" in caught.value.allowed
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["prometheus", "metrics", "jaeger"])
@pytest.mark.parametrize("reply", [(404, b"not here"), (200, b"<html>"), (200, b"\xff\x00"), (200, b'{"data": 1}')])
def test_another_server_is_an_input_error(name: str, reply: tuple[int, bytes]) -> None:
    with served(lambda *_: reply) as port, pytest.raises(InputError):
        latency_source(f"{name}=http://127.0.0.1:{port}#a_seconds", 0.95)


@pytest.mark.parametrize(
    "address", ["http://me:secret@h:99999999", "me:secret@h:1", "http://me:secret@", "http://me:secret@[h"]
)
@pytest.mark.parametrize("rest", ["", "#a_seconds"])
def test_an_error_does_not_show_the_password(address: str, rest: str) -> None:
    with pytest.raises(FieldError) as caught:
        latency_source(f"metrics={address}{rest}", 0.95)
    assert "secret" not in str(caught.value)


def test_a_page_without_end_is_given_up() -> None:
    with served(lambda *_: (200, b"x" * (LARGEST + 2**20))) as port:
        pages = Pages(f"http://127.0.0.1:{port}", "a page of metrics")
        with pytest.raises(Transient, match="not at its end"):
            pages.get()
        pages.close()


def test_a_password_is_not_shown() -> None:
    assert without_password("prometheus=http://me:secret@h:1#x") == "prometheus=http://***@h:1#x"
    assert without_password("prometheus=me:secret@h:1#x") == "prometheus=***@h:1#x"
    assert without_password("http://token@h") == "http://***@h"
    assert without_password("access-log=/a//b@c#d") == "access-log=/a//***@c#d"


def test_a_selector_is_written_as_it_was_read() -> None:
    text = 'a:b_seconds{job="web",path=~"/api/.*\\\\d",quote!="\\"\\n"}'
    selector = read_selector(text)
    assert str(selector) == text
    assert selector.matchers[2] == ("quote", "!=", '"\n')
    assert read_selector(str(selector)) == selector
    assert read_selector("a_seconds_bucket{}") == Selector("a_seconds")


@pytest.mark.parametrize(
    ("matchers", "matches"),
    [
        ('job="web"', True), ('job="db"', False), ('job!="db"', True), ('job=~"w.*"', True), ('job=~"w"', False),
        ('job!~"w.*"', False), ('job="web",zone="a"', False), ('zone=""', True),
    ],
)  # fmt: skip
def test_a_selector_chooses_as_prometheus_does(matchers: str, matches: bool) -> None:
    assert read_selector(f"x{{{matchers}}}").matches({"job": "web", "le": "1"}) is matches


@pytest.mark.parametrize(
    ("name", "options", "unit"),
    [
        ("a_seconds", {}, 1e3),
        ("a_milliseconds", {}, 1.0),
        ("a", {"unit": "us"}, 1e-3),
        ("a_seconds", {"unit": "ms"}, 1),
    ],
)
def test_the_unit_is_that_of_the_option_or_the_name(name: str, options: Mapping[str, str], unit: float) -> None:
    assert unit_ms(Place("", 0.95, options), Selector(name)) == unit


class Scripted:
    """A source whose answers a test gives, and whose looks wait for it."""

    window_s, period_s = 1.0, 0.01

    def __init__(self) -> None:
        self.answer: Mapping[str, float] | Exception = {"latency_ms": 5.0, "rate_rps": 10.0}
        self.may_look, self.looked, self.closed = Event(), Event(), Event()

    def begin(self, now_s: float) -> Mapping[str, float]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def look(self, now_s: float) -> Mapping[str, float]:
        self.looked.set()
        assert self.may_look.wait(WAIT_S)
        return self.begin(now_s)

    def close(self) -> None:
        self.closed.set()


def until(sensor: BackgroundSensor, problem: str, source: Scripted) -> None:
    """Let the source answer until the sensor says this."""
    for _ in range(2000):
        if sensor.missing() == problem and source.looked.is_set():
            return
        source.may_look.set()
        Event().wait(0.01)
    pytest.fail(f"still {sensor.missing()!r}")


def test_the_first_answer_is_there_before_the_first_read_and_a_slow_source_never_blocks_it() -> None:
    source, time_s = Scripted(), [100.0]
    sensor = BackgroundSensor("it", source, lambda: time_s[0]).begin()
    assert sensor.gives == GIVES
    assert set(GIVES) == set(IDLE) <= set(READINGS)
    assert sensor.read(100.0) == {"latency_ms": 5.0, "rate_rps": 10.0}
    assert source.looked.wait(WAIT_S)  # the thread waits inside the source now
    assert sensor.read(102.9) == {"latency_ms": 5.0, "rate_rps": 10.0}
    assert sensor.age_s(102.9) == pytest.approx(2.9)
    assert sensor.read(103.1) == {}  # older than three windows
    time_s[0] = 103.0
    source.may_look.set()
    sensor.close()
    assert source.closed.wait(WAIT_S)


def test_a_source_that_fails_is_missing_until_it_is_back() -> None:
    source, time_s = Scripted(), [0.0]
    sensor = BackgroundSensor("it", source, lambda: time_s[0]).begin()
    sensor.read(0.0)
    source.answer = Transient("it is away")
    until(sensor, "it is away", source)
    time_s[0] = 10.0
    assert sensor.read(10.0) == {}
    source.looked.clear()
    source.answer = ZeroDivisionError("a bug of a plug-in")
    until(sensor, "ZeroDivisionError: a bug of a plug-in", source)
    assert sensor.read(10.0) == {}
    source.looked.clear()
    source.answer = IDLE
    until(sensor, "", source)
    assert sensor.read(10.0) == IDLE
    sensor.close()
    assert source.closed.wait(WAIT_S)


def test_a_sensor_that_was_never_read_has_no_thread_and_lets_go_of_its_source() -> None:
    source = Scripted()
    sensor = BackgroundSensor("it", source).begin()
    sensor.close()
    assert source.closed.is_set()
    assert sensor.read(0.0) is not None
    assert not source.looked.is_set()
    refused = Scripted()
    refused.answer = FieldError("latency", "x", "y")
    with pytest.raises(FieldError):
        BackgroundSensor("it", refused).begin()
    assert refused.closed.is_set()
    assert BackgroundSensor("it", refused).age_s(0.0) == math.inf
