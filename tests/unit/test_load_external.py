"""Load generators of others: how they are called, where they run, and what becomes of results that are damaged."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import DeploymentFailed, InputError, LoadFailed, MissingPrerequisite, TailorError
from framework.load.external import ExternalLoadGenerator, script_files, variables
from framework.load.h2load import H2load
from framework.load.invocation import Finished, Task, Tool
from framework.load.jmeter import JMeter
from framework.load.k6 import K6
from framework.load.key_value import KeyValue
from framework.load.locust import Locust
from framework.load.runners import Tail
from framework.load.usage_samples import THREAD, UsageSamples
from framework.load.vegeta import Vegeta
from framework.load.wrk2 import Wrk2
from framework.model import (
    Application,
    Container,
    Deployment,
    ExternalLoad,
    LoadPlan,
    LoadResult,
    Objective,
    Running,
    Usage,
    Workload,
)
from framework.model.side_container import Ended, SideContainer
from optimizer.space import Configuration

TOOLS: tuple[Tool, ...] = (H2load(), JMeter(), K6(), KeyValue(), Locust(), Vegeta(), Wrk2())
WORKLOAD = Workload(50, "constant", "http://web:8080", {})
PLAN = LoadPlan(WORKLOAD, 50, 1.0, 2.0, seed=3)
APPLICATION = Application(
    name="shop", directory=Path(), compose={}, services=(), hosts=(), workload=WORKLOAD, tracing=None,
    objective=Objective(), generator="h2load",
)  # fmt: skip
WEB = Container("web", "c1", "web", "image", "sha256:0", "127.0.0.1", 1, "now")
RUNNING = Running(Deployment("shop", "tailor-s", Configuration({}), {}, {}), "net", {"web": WEB})
SCRIPT = b"GET /a\nPOST http://other/b\n@body.json\n\nGET  /c\n${__P(tailor.seconds)}"


def task(load: ExternalLoad | None = None, *, rate_rps: float = 50.0, text: bytes = SCRIPT) -> Task:
    plan = replace(PLAN, rate_rps=rate_rps)
    return Task(plan, load or ExternalLoad(script="load/script.txt", users=4), "http://web:8080", "/s", "/r", text)


def words(tool: Tool, **given_to_task: object) -> str:
    return " ".join(tool.invocation(task(**given_to_task)).command)  # type: ignore[arg-type]


def usage_now() -> Usage:
    return Usage(time.time_ns(), {"web": 1.0}, 1.0, 0.0, None, 2, 0.5)


# ---------------------------------------------------------------- how they are called


def test_each_is_told_rate_and_time_by_its_own_options() -> None:
    assert "-rate=50/1s -duration=3s -workers=4 -max-body=0" in words(Vegeta())
    assert "-rate=12500/1000s" in words(Vegeta(), rate_rps=12.5)
    assert "--clients=4 --rps=12.5 --duration=8" in words(H2load()), "it drops what is open at its end"
    with pytest.raises(InputError, match="whole requests/s"):
        words(Wrk2(), rate_rps=12.5)
    assert "-t2 -c4 -d13s -R50 --latency -s /s/script.txt http://web:8080/" in words(Wrk2()), "10 s of calibration"
    assert "--users 4 --spawn-rate 4 --run-time 8s" in words(Locust())
    assert "-Jtailor.seconds=8 -Jtailor.users=4 -Jtailor.rate=50" in words(JMeter())
    module = K6().invocation(task(rate_rps=12.5)).files["tailor-k6.js"].decode()
    assert "rate: 12500, timeUnit: '1000s', duration: '3000ms'" in module
    assert "preAllocatedVUs: 4, maxVUs: 4" in module


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_words_of_the_user_come_first(tool: Tool) -> None:
    load = ExternalLoad(script="script.txt", command=("mine", "--of", "the user"), users=4)
    invocation = tool.invocation(task(load))
    assert tuple(invocation.command[:3]) == load.command
    assert invocation.seconds >= 3.0
    if invocation.then:
        assert invocation.then[0] == "mine"


def test_targets_of_vegeta_that_are_paths_get_the_address() -> None:
    targets = Vegeta().invocation(task()).files["tailor-targets.txt"].decode().splitlines()
    assert targets[:3] == ["GET http://web:8080/a", "POST http://other/b", "@body.json"]
    assert targets[4] == "GET http://web:8080/c"
    alone = Vegeta().invocation(task(ExternalLoad(path="/x?y=1"))).files["tailor-targets.txt"]
    assert alone == b"GET http://web:8080/x?y=1\n"


def test_a_plan_of_jmeter_that_does_not_end_in_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"does not use \$\{__P\(tailor.seconds\)\}"):
        JMeter().invocation(task(text=b"<jmeterTestPlan/>"))


def test_scripts_know_what_is_wanted_from_variables() -> None:
    assert variables(task(rate_rps=12.5)) == {
        "TAILOR_TARGET": "http://web:8080", "TAILOR_HOST": "web", "TAILOR_PORT": "8080", "TAILOR_RATE": "12.5",
        "TAILOR_USERS": "4", "TAILOR_WARMUP_S": "1", "TAILOR_SECONDS": "3", "TAILOR_SEED": "3",
    }  # fmt: skip


def test_a_script_comes_with_its_directory_and_nothing_from_outside(tmp_path: Path) -> None:
    (tmp_path / "load" / "data").mkdir(parents=True)
    (tmp_path / "load" / "load.js").write_text("a")
    (tmp_path / "load" / "data" / "users.csv").write_text("b")
    (tmp_path / "secret").write_text("c")
    (tmp_path / "load" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "load" / "node_modules").mkdir()
    (tmp_path / "load" / "node_modules" / "large").write_text("d")
    application = replace(APPLICATION, directory=tmp_path, external=ExternalLoad(script="load/load.js"))
    assert script_files(application) == {"load.js": b"a", "data/users.csv": b"b"}
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "out").symlink_to("/usr")
    with pytest.raises(InputError, match=r"load\.script: found a directory at /usr"):
        script_files(replace(application, external=ExternalLoad(script="away/out/load.js")))


# ---------------------------------------------------------------- where they run


class Containers:
    """A fake engine whose container leaves the given files."""

    def __init__(self, files: dict[str, bytes], status: int = 0, image: bool = True) -> None:
        self._files, self._status, self._image = files, status, image
        self.wanted: list[SideContainer] = []

    def has_image(self, name: str) -> bool:
        return self._image

    def cores(self) -> int:
        return 4

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        self.wanted.append(wanted)
        each(b"a line")
        for path, target in wanted.outputs.items():
            if path.rpartition("/")[2] in self._files:
                target.write_bytes(self._files[path.rpartition("/")[2]])
        return Ended(self._status, "it said why\n", late=False)


def log_of_h2load(seconds: float = 3.0, rate_rps: float = 50.0) -> bytes:
    """Lines of requests from now on, which take 1 ms; each tenth of them fails."""
    started_us = time.time_ns() // 1000
    lines = []
    for number in range(int(seconds * rate_rps)):
        status = 500 if number % 10 == 0 else 200
        lines.append(f"{started_us + int(number / rate_rps * 1e6)}\t{status}\t1000\n")
    return "".join(lines).encode()


def in_container(containers: Containers, usage: Callable[[], Usage] = usage_now) -> LoadResult:
    application = replace(APPLICATION, external=ExternalLoad(image="tools:1", users=4))
    return ExternalLoadGenerator(H2load(), application, containers).run(PLAN, RUNNING, usage, lambda step: None)


def test_a_container_joins_the_network_and_its_files_are_read() -> None:
    containers = Containers({"h2load.tsv": log_of_h2load()})
    result = in_container(containers)
    [wanted] = containers.wanted
    assert (wanted.image, wanted.program, wanted.network, wanted.cpus) == ("tools:1", "h2load", "net", "3")
    assert wanted.command[0] == "--h1"
    assert wanted.environment["TAILOR_TARGET"] == "http://web:8080"
    assert (wanted.labels["tailor.role"], wanted.name) == ("loadgen", "tailor-s-loadgen")
    assert (result.loop, result.timing, result.closed_loop, result.cpu_s) == ("paced", "sent", True, None)
    start, end = result.edges_ns
    inside = (result.due_ns >= start) & (result.due_ns < end)
    assert inside.sum() == 100
    assert result.errors == {"status 500": 10}
    assert result.usage_before is not None


def test_what_goes_wrong_in_a_container_is_said() -> None:
    with pytest.raises(MissingPrerequisite, match="image tools:1 is not here"):
        in_container(Containers({}, image=False))
    with pytest.raises(LoadFailed, match=r"(?s)h2load ended with status 3.*it said why"):
        in_container(Containers({}, status=3))
    with pytest.raises(LoadFailed, match="cannot be read"):
        in_container(Containers({}))
    with pytest.raises(LoadFailed, match="the generator reports no requests"):
        in_container(Containers({"h2load.tsv": b""}))
    with pytest.raises(LoadFailed, match=r"end after 1\.\d s, and warm-up and window take 3 s"):
        in_container(Containers({"h2load.tsv": log_of_h2load(1.2)}))
    with pytest.raises(LoadFailed, match="line 1: 2 fields"):
        in_container(Containers({"h2load.tsv": b"1\t2\n"}))


def test_the_key_value_client_is_asked_for_bursts(tmp_path: Path) -> None:
    load = ExternalLoad(image="tools:1", command=("/program", "-depth", "16"), users=7)
    asked = replace(task(load, text=b""), target="http://store:8080")
    words = list(KeyValue().invocation(asked).command)
    assert words[:3] == ["/program", "-depth", "16"]
    told = dict(zip(words[3::2], words[4::2], strict=True))
    assert (told["-address"], told["-connections"], told["-window"]) == ("store:7070", "7", "8s")
    (tmp_path / "bursts.tsv").write_bytes(b"1000000\t200\t50\n1000100\t404\t60\n1000200\t-1\t0\n")
    rows = KeyValue().read(asked, Finished(b"", tmp_path, time.time_ns())).rows
    result = rows.result(rows.origin_ns(), 0.0, 1.0)
    assert result.ok.tolist() == [True, False, False]
    assert result.errors == {"status 404": 1, "no reply": 1}
    assert (result.end_ns - result.due_ns)[:2].tolist() == [50_000, 60_000]


def test_a_service_that_ended_is_named_and_not_the_generator() -> None:
    def ended() -> Usage:
        raise DeploymentFailed("its container is exited with 137", "db")

    with pytest.raises(DeploymentFailed, match=r"^db: its container"):
        in_container(Containers({"h2load.tsv": log_of_h2load()}), ended)
    with pytest.raises(DeploymentFailed, match=r"^db: its container"):
        in_container(Containers({}, status=3), ended)


WRITES_A_LOG = """
import os, sys, time
target = sys.argv[-1]
path = next(word for word in sys.argv if word.startswith("--log-file=")).partition("=")[2]
start = time.time_ns() // 1000
with open(path, "w") as log:
    for number in range(150):
        log.write(f"{start + number * 20000}\\t200\\t700\\n")
assert target == "http://127.0.0.1:8080/", target
assert os.environ["TAILOR_TARGET"] == "http://127.0.0.1:8080"
assert "SECRET" not in os.environ
"""


def on_this_machine(code: str, monkeypatch: pytest.MonkeyPatch, grace_s: float = 30.0) -> LoadResult:
    monkeypatch.setenv("SECRET", "1")
    application = replace(APPLICATION, external=ExternalLoad(command=(sys.executable, "-c", code)))
    generator = ExternalLoadGenerator(H2load(), application, Containers({}), grace_s=grace_s)
    return generator.run(PLAN, RUNNING, usage_now, lambda step: None)


def test_a_command_of_this_machine_reaches_the_container_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(on_this_machine(WRITES_A_LOG, monkeypatch).due_ns) == 150


LEAVES_A_CHILD = """
import pathlib, subprocess, time
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("{file}").write_text(str(child.pid))
time.sleep(600)
"""


def test_a_command_that_fails_or_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LoadFailed, match=r"(?s)ended with status 1.*ZeroDivisionError"):
        on_this_machine("1 / 0", monkeypatch)
    with pytest.raises(LoadFailed, match="had not ended after"):
        on_this_machine(LEAVES_A_CHILD.format(file=tmp_path / "child"), monkeypatch, grace_s=-4.0)
    child = int((tmp_path / "child").read_text())
    for _ in range(300):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail("its child still runs")
    gone = replace(APPLICATION, external=ExternalLoad(command=("no-such-program-of-tailor",)))
    with pytest.raises(MissingPrerequisite, match="no-such-program-of-tailor is not on this machine"):
        ExternalLoadGenerator(H2load(), gone, Containers({})).run(PLAN, RUNNING, usage_now, lambda step: None)


@given(st.lists(st.binary(max_size=60)), st.integers(1, 100))
def test_the_tail_is_the_end_of_the_output(lines: list[bytes], most: int) -> None:
    tail = Tail(most)
    for line in lines:
        tail.line(line)
    assert tail.kept == b"".join(line + b"\n" for line in lines)[-most:]


# ---------------------------------------------------------------- counters at the window's edges


def growing(at_ns: int) -> Usage:
    seconds = at_ns / 1e9
    return Usage(at_ns, {"web": seconds / 2}, seconds, seconds / 4, seconds / 8, 2, seconds / 16)


def samples_at(*times_ns: int) -> UsageSamples:
    """Return the samples of a thread that read at these times."""
    left = iter(times_ns)
    done = threading.Event()

    def read() -> Usage:
        at_ns = next(left, None)
        if at_ns is None:
            done.set()
            raise TailorError("no more")
        return growing(at_ns)

    samples = UsageSamples(read, every_s=0)
    with samples:
        assert done.wait(10)
    return samples


@given(st.floats(0, 4))
def test_counters_between_two_readings_are_in_proportion(at_s: float) -> None:
    at_ns = round(at_s * 1e9)
    usage = samples_at(0, 10**9, 3 * 10**9, 4 * 10**9).at(at_ns)
    assert usage is not None
    assert usage.at_ns == at_ns
    at_s = at_ns / 1e9
    assert usage.cpu_s["web"] == pytest.approx(at_s / 2)
    assert (usage.host_cpu_s, usage.stolen_s, usage.pressure_cpu_s, usage.tailor_cpu_s) == pytest.approx(
        (at_s, at_s / 4, at_s / 8, at_s / 16)
    )


def test_counters_far_from_any_reading_are_unknown() -> None:
    samples = samples_at(10**9)
    assert samples.at(2 * 10**9) == growing(10**9)
    assert samples.at(9 * 10**9) is None
    assert samples_at().at(10**9) is None


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Iterator[None]:
    yield
    assert THREAD not in [thread.name for thread in threading.enumerate()]
