"""Workloads with users, protocols, calls and files: what they may say, and how they reach the load generator."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.application import load_application
from framework.config.workload_content import load_workload_document
from framework.errors import FileError, LoadFailed
from framework.load.container import ContainerLoad
from framework.model import Limits, LoadPlan, Running, Workload
from framework.model.deployment import Deployment
from framework.model.side_container import Ended, SideContainer
from framework.objective.checks import finite, infeasible
from framework.objective.window import Window
from optimizer.space import Configuration

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"


def cases(kind: str) -> list[Path]:
    return sorted((CASES / kind / "workloads").glob("*.json"))


@pytest.mark.parametrize("case", cases("good"), ids=lambda path: path.stem)
def test_good_workloads_stay_as_they_are_written(case: Path) -> None:
    assert load_workload_document(case) == json.loads(case.read_text())


@pytest.mark.parametrize("case", cases("bad"), ids=lambda path: path.stem)
def test_bad_workloads_are_refused_with_place_and_remedy(case: Path) -> None:
    with pytest.raises(FileError, match=r": found .+; allowed: .+") as caught:
        load_workload_document(case)
    assert str(caught.value).startswith(str(case))
    assert caught.value.key, "the message names the place"


def test_the_example_of_the_guide_is_a_workload(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "workload.md").read_text()
    examples = re.findall(r"```yaml\n(kind: workload\n.*?)```", guide, re.S)
    assert examples
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.yaml"
        path.write_text(example)
        load_workload_document(path)


# ---------------------------------------------------------------------- files


def with_workload(directory: Path, workload: dict[str, Any], target: str | None = None) -> Path:
    """Make an application with another workload, in JSON, which is YAML."""
    shutil.copytree(CASES / "good" / "small", directory, dirs_exist_ok=True)
    (directory / "workload.yaml").write_text(json.dumps(workload))
    if target is not None:
        path = directory / "application.yaml"
        path.write_text(re.sub(r"target: \S+?([,}\n])", rf"target: {target}\1", path.read_text()))
    return directory


def mix(**request: Any) -> dict[str, Any]:
    return {
        "kind": "workload", "version": 1, "timeout_ms": 1000,
        "requests": [{"name": "a", "weight": 1, "path": "/", **request}],
    }  # fmt: skip


@given(content=st.binary(max_size=300))
def test_a_body_file_travels_in_the_plan_as_it_is(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    directory = with_workload(tmp_path_factory.mktemp("app") / "a", mix(body_file="bodies/up load.bin"))
    (directory / "bodies").mkdir()
    (directory / "bodies" / "up load.bin").write_bytes(content)
    application = load_application(directory)
    assert application.workload.files == {"bodies/up load.bin": content}
    plan = plan_of(application.workload)
    assert base64.b64decode(plan["files"]["bodies/up load.bin"], validate=True) == content
    assert plan["workload"] == application.workload.document
    (directory / "bodies" / "up load.bin").write_bytes(content + b"x")
    assert load_application(directory).content_hash != application.content_hash


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/hostname", "in the application's directory"),
        ("../outside.bin", "in the application's directory"),
        ("bodies/../../outside.bin", "in the application's directory"),
        ("link.bin", "in the application's directory"),
        (".hidden", "not hidden"),
        ("missing.bin", "no such file"),
        (".", "a regular file"),
        ("folder", "a directory"),
        ("large.bin", "at most 4 MiB"),
    ],
)
def test_a_file_that_cannot_be_sent_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "outside.bin").write_bytes(b"x")
    directory = with_workload(tmp_path / "app", mix(body_file=name))
    (directory / "link.bin").symlink_to(tmp_path / "outside.bin")
    (directory / ".hidden").write_bytes(b"x")
    (directory / "folder").mkdir()
    (directory / "bodies").mkdir()
    (directory / "large.bin").touch()
    os.truncate(directory / "large.bin", 4 * 2**20 + 1)
    with pytest.raises(FileError, match=re.escape(reason)) as caught:
        load_application(directory)
    assert "requests[0].body_file" in caught.value.key


def test_a_file_that_a_service_may_write_is_refused(tmp_path: Path) -> None:
    directory = with_workload(tmp_path / "app", mix(body_file="data/up.bin"))
    (directory / "data").mkdir()
    (directory / "data" / "up.bin").write_bytes(b"x")
    assert load_application(directory).workload.files == {"data/up.bin": b"x"}
    compose = directory / "compose.yaml"
    compose.write_text(compose.read_text().replace('/nginx.conf:ro"]', '/nginx.conf:ro", "./data:/data"]'))
    with pytest.raises(FileError, match="outside of the directories that services write"):
        load_application(directory)


def test_all_files_together_are_bounded(tmp_path: Path) -> None:
    workload = mix()
    workload["requests"] = [
        {"name": f"r{number}", "weight": 1, "path": "/", "body_file": f"{number}.bin"} for number in range(5)
    ]
    directory = with_workload(tmp_path / "app", workload)
    for number in range(5):
        (directory / f"{number}.bin").write_bytes(b"x" * 4 * 2**20)
    with pytest.raises(FileError, match="at most 16 MiB") as caught:
        load_application(directory)
    assert "requests[4].body_file" in caught.value.key


# ---------------------------------------------------------------------- protocols


@pytest.mark.parametrize(
    ("protocol", "target", "allowed"),
    [("h2", "http://cache:80", "https://"), ("h2c", "https://cache:443", "http://")],
)
def test_the_target_fits_the_protocol(tmp_path: Path, protocol: str, target: str, allowed: str) -> None:
    service = load_application(CASES / "good" / "small").entry
    target = target.replace("cache", service)
    directory = with_workload(tmp_path / "bad", {**mix(), "protocol": protocol}, f'"{target}"')
    with pytest.raises(FileError, match=re.escape(f"allowed: {allowed}")):
        load_application(directory)
    other = target.replace("https", "http") if protocol == "h2c" else target.replace("http", "https")
    directory = with_workload(tmp_path / "good", {**mix(), "protocol": protocol}, f'"{other}"')
    assert load_application(directory).workload.target == other


# ---------------------------------------------------------------------- what the generator gets


class Kept:
    """An engine that keeps what it is asked to run, whose generator then fails."""

    wanted: SideContainer

    def has_image(self, name: str) -> bool:
        return True

    def cores(self) -> int:
        return 2

    def run(self, wanted: SideContainer, each: Any) -> Ended:
        self.wanted = wanted
        each(b'{"event": "phase", "name": "login"}')
        message = 'users.login[0] "form" of user 3: status 403: "wrong"'
        each(json.dumps({"event": "problem", "refused": False, "message": message}).encode())
        return Ended(1, "", late=False)


def asked(workload: Workload) -> tuple[SideContainer, str, list[str]]:
    """Run a workload; return the wanted container, the error, and the reported steps."""
    application = load_application(CASES / "good" / "small")
    engine, steps = Kept(), list[str]()
    running = Running(Deployment("a", "tailor-s", Configuration({}), {}, {}), "net", {})
    with pytest.raises(LoadFailed) as caught:
        ContainerLoad(application, engine).run(
            LoadPlan(workload, 50, 1.0, 2.0, seed=1), running, lambda: pytest.fail("usage"), steps.append
        )
    return engine.wanted, str(caught.value), steps


def plan_of(workload: Workload) -> dict[str, Any]:
    wanted, _, _ = asked(workload)
    plan: dict[str, Any] = json.loads(wanted.files["/plan.json"])
    return plan


def test_a_workload_without_files_makes_the_plan_that_it_always_made() -> None:
    workload = load_application(CASES / "good" / "small").workload
    assert sorted(plan_of(workload)) == [
        "arrivals", "otlp_endpoint", "propagation", "rate_rps", "seed", "target", "trace", "warmup_s", "window_s",
        "workload",
    ]  # fmt: skip


def test_the_log_in_has_its_own_time_and_its_failure_is_told() -> None:
    steps = [{"name": "form", "path": "/login"}]
    limits = []
    for users in ({"count": 1, "login": steps}, {"count": 1, "login": steps, "login_limit_s": 7}, {"count": 1}, None):
        document = mix() if users is None else {**mix(), "users": users}
        wanted, message, phases = asked(Workload(50, "poisson", "http://cache", document))
        assert phases == ["login"]
        assert message.endswith('the load generator: users.login[0] "form" of user 3: status 403: "wrong"')
        limits.append(wanted.limit_s)
    assert [limit - limits[-1] for limit in limits] == [120, 7, 0, 0]


# ---------------------------------------------------------------------- reasons of failed requests


def window(failed: int, reasons: dict[str, int]) -> Window:
    none = np.empty(0)
    return Window(2011, failed, none, 2011, none, 2011 - failed, failed, 10.0, reasons)


def test_failed_requests_are_told_by_reason() -> None:
    limits = Limits()
    reasons = {"status 502": 60, "unexpected body": 400, "timeout": 5, "b": 2, "a": 2, "c": 0}
    [message, *_] = infeasible(window(469, reasons), limits)
    assert message == (
        "469 of 2011 requests failed "
        "(23.32%: 400 unexpected body, 60 status 502, 5 timeout, 2 a, 2 for other reasons); the limit is 0.10%"
    )
    assert list(finite(None, window(1, {"timeout": 1}))) == [
        "the objective is infinite: 1 of 2011 requests failed (1 timeout), and a failed request is infinitely slow"
    ]
    some = replace(window(3, {"status 301": 2, "timeout": 1}), failing={"page": 1, "tag": 2})
    [named, *_] = infeasible(some, limits)
    assert "(0.15%: 2 status 301, 1 timeout; of 'tag' 2, 'page' 1)" in named
    [unknown, *_] = infeasible(window(469, {}), limits)
    assert unknown == "469 of 2011 requests failed (23.32%); the limit is 0.10%"
