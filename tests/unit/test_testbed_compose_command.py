"""The output of both versions of compose, and its meaning."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from framework.errors import DeploymentFailed, MissingPrerequisite, TestbedUnavailable
from framework.testbeds.docker.compose_command import ComposeCommand, failure

CASES = [
    (
        " Container tailor-s-web-1  Starting\nError response from daemon: driver failed programming external "
        "connectivity on endpoint tailor-s-web-1 (abc): Error starting userland proxy: listen "
        "tcp4 127.0.0.1:8080: bind: address already in use",
        "port 8080 is taken", "web",
    ),
    (
        "Error response from daemon: driver failed programming external connectivity on endpoint tailor-s-a-b-1 (c): "
        "Bind for 0.0.0.0:80 failed: port is already allocated",
        "port 80 is taken", "a-b",
    ),
    (
        "ERROR: for tailor-s_web_1  Cannot start service web: driver failed programming external connectivity on "
        "endpoint tailor-s_web_1 (b): Error starting userland proxy: "
        "listen tcp4 127.0.0.1:8080: bind: address already in use",
        "port 8080 is taken", "web",
    ),
    (
        "Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /no/such",
        "cannot mount /no/such", "",
    ),
    ("Error response from daemon: No such image: nothing:1", "image nothing:1 is not on this machine", ""),
    (
        "validating /x/compose.yaml: services.web Additional property memery is not allowed",
        "compose refuses the document as invalid", "",
    ),
    (
        "ERROR: The Compose file './compose.yaml' is invalid because:\n"
        "Unsupported config option for services.web: 'memery'",
        "compose refuses the document as invalid", "",
    ),
    ("service \"web\" refers to undefined volume data: invalid compose project", "refuses the document as invalid", ""),
    ("Something nobody has seen", "compose could not start the deployment", ""),
]  # fmt: skip


@pytest.mark.parametrize(("output", "reason", "service"), CASES)
def test_failures(output: str, reason: str, service: str) -> None:
    error = failure("tailor-s", output)
    assert isinstance(error, DeploymentFailed)
    assert reason in error.reason
    assert error.service == service
    assert output.splitlines()[-1].strip() in error.log


def test_progress_and_warnings_are_left_out() -> None:
    output = (
        ' Network tailor-s_default  Creating\n Container tailor-s-web-1  Created\nCreating tailor-s_web_1 ... done\n'
        'time="2026" level=warning msg="version is obsolete"\n\nthe point\n'
    )  # fmt: skip
    error = failure("tailor-s", output)
    assert isinstance(error, DeploymentFailed)
    assert error.log == "the point"


@pytest.mark.parametrize(
    "text",
    [
        "Cannot connect to the Docker daemon at unix:///x",
        "Couldn't connect to Docker daemon",
        "Error response from daemon: error while removing network: network a_default id 9 has active endpoints",
    ],
)
def test_an_engine_that_is_away_or_stuck_is_transient(text: str) -> None:
    assert isinstance(failure("p", text), TestbedUnavailable)


def script(directory: Path, name: str, body: str) -> str:
    path = directory / name
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_first_command_that_works_is_used(tmp_path: Path) -> None:
    broken = script(tmp_path, "broken", "sys.exit(1)")
    old = script(tmp_path, "old", "print('1.29.2')")
    command = ComposeCommand.find([["/no/such/command"], [broken], [old]])
    assert command.version == "1.29.2"
    assert command.old
    with pytest.raises(MissingPrerequisite, match=r"(?s)no compose command.*make compose"):
        ComposeCommand.find([["/no/such/command"], [broken]])


def test_what_the_commands_are_and_that_the_user_s_compose_settings_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSE_PROFILES", "tailor")
    monkeypatch.setenv("TAILOR_DATABASE", "postgresql://tailor:secret@db/tailor")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen = "sorted(name for name in os.environ if name.startswith(('COMPOSE_', 'TAILOR_', 'AWS_')))"
    echo = script(tmp_path, "echo", f"print(sys.argv[1:], {seen})")
    for version, pulls in (("2.39.4", True), ("1.29.2", False)):
        compose = ComposeCommand((echo,), version)
        code, output, errors = compose.run("p", tmp_path / "compose.yaml", "seed", ["a b"], 30)
        assert (code, errors) == (0, "")
        own = "['COMPOSE_ANSI', 'COMPOSE_IGNORE_ORPHANS', 'COMPOSE_MENU']"
        assert output.strip().endswith(f"'run', '--rm', '--no-deps', '-T', 'seed', 'a b'] {own}")
        show = script(tmp_path, "show", "sys.stderr.write(' '.join(sys.argv[1:])); sys.exit(1)")
        with pytest.raises(DeploymentFailed, match=r"-p p -f .* up -d --no-build") as raised:
            ComposeCommand((show,), version).up("p", tmp_path / "compose.yaml")
        assert ("--pull never" in str(raised.value)) is pulls


def test_a_one_shot_that_ends_with_the_engine_is_no_failure_of_its_own(tmp_path: Path) -> None:
    away = script(tmp_path, "away", "sys.stderr.write('error during connect: EOF'); sys.exit(1)")
    with pytest.raises(TestbedUnavailable, match="does not answer"):
        ComposeCommand((away,), "2").run("p", tmp_path / "compose.yaml", "seed", [], 60)


def test_a_command_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    slow = script(tmp_path, "slow", "sys.stderr.write('half way\\n'); sys.stderr.flush(); time.sleep(60)")
    with pytest.raises(DeploymentFailed, match=r"(?s)compose run did not end within 1 s"):
        ComposeCommand((slow,), "2").run("p", tmp_path / "c", "seed", [], 1)
