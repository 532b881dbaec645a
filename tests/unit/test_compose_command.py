"""Commands of services: flags are appended to the server's own command, and replaced where it has them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.compose.command import Command
from framework.model import ImageFacts

WORDS = st.lists(st.text("abcxyz012-_=/. '\"", min_size=1, max_size=8), min_size=1, max_size=5)


def with_flag(entry: dict[str, Any], template: str, text: str, image: ImageFacts | None = None) -> dict[str, Any]:
    command = Command.of(entry, "server", image)
    assert not command.reason
    return command.with_flag(template, text).written()


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        ({}, {"command": ["server", "--size", "5"]}),
        ({"command": "run --quiet"}, {"command": ["run", "--quiet", "--size", "5"]}),
        ({"command": ["run", "--size", "3"]}, {"command": ["run", "--size", "5"]}),
        ({"command": ["run", "--size", "3", "--size", "4"]}, {"command": ["run", "--size", "3", "--size", "5"]}),
        ({"entrypoint": ["run"]}, {"command": ["--size", "5"]}),
        ({"entrypoint": ["sh", "-c"], "command": ["run --a 1"]}, {"command": ["run --a 1 --size 5"]}),
        ({"entrypoint": ["sh", "-c", "run --size 3 -b"]}, {"entrypoint": ["sh", "-c", "run --size 5 -b"]}),
        ({"command": ["/bin/sh", "-c", "exec run"]}, {"command": ["/bin/sh", "-c", "exec run --size 5"]}),
        ({"command": "bash -c 'wait-for db && run'"}, {"command": ["bash", "-c", "wait-for db && run --size 5"]}),
        ({"command": ["sh", "-ec", "a; b; run $$X"]}, {"command": ["sh", "-ec", "a; b; run $$X --size 5"]}),
        ({"command": ["sh", "-c", "run > /log 2>&1"]}, {"command": ["sh", "-c", "run > /log 2>&1 --size 5"]}),
        ({"command": ["sh", "-c", "exec run\n"]}, {"command": ["sh", "-c", "exec run --size 5"]}),
        ({"command": ["sh", "-c", "a\nexec run;\n"]}, {"command": ["sh", "-c", "a\nexec run --size 5"]}),
        ({"command": ["sh", "-c", "run \\\n  --size 3\n"]}, {"command": ["sh", "-c", "run    --size 5"]}),
        ({"command": ["sh", "-c", "run --size  3 -p $$P"]}, {"command": ["sh", "-c", "run --size 5 -p $$P"]}),
        ({"command": ["sh", "-c", "run --size '3' $$P"]}, {"command": ["sh", "-c", "run --size 5 $$P"]}),
        (
            {"command": ["sh", "-c", "run --size 3 --sizes 3 'x --size 3'"]},
            {"command": ["sh", "-c", "run --size 5 --sizes 3 'x --size 3'"]},
        ),
        ({"command": ["sh", "-c", "run --size 3 --size 34"]}, {"command": ["sh", "-c", "run --size 3 --size 5"]}),
        ({"command": ["sh", "-c", "run --size ''3"]}, {"command": ["sh", "-c", "run --size ''3 --size 5"]}),
    ],
)
def test_a_flag_goes_to_the_server(entry: dict[str, Any], written: dict[str, Any]) -> None:
    assert with_flag(entry, "--size {value}", "5") == written


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sh", "-c", "run | tee log"], "pipes its output"),
        (["sh", "-c", "run & wait"], "runs in the background"),
        (["sh", "-c", "run", "name"], "arguments of its own"),
        (["bash", "-l", "start.sh"], "for bash -l"),
        (["sh", "-c", "run 'x"], "would not read"),
        (["sh", "-c", " ;\n"], "an empty line"),
    ],
)
def test_where_no_flag_can_be_appended_the_reason_is_said(command: list[str], reason: str) -> None:
    assert reason in Command.of({"command": command}, "").reason


def test_an_image_s_own_command_is_kept() -> None:
    image = ImageFacts(entrypoint=("/entrypoint.sh",), command=("/run.sh", "$HOME"))
    assert with_flag({}, "--size {value}", "5", image) == {"command": ["/run.sh", "$$HOME", "--size", "5"]}
    shell = ImageFacts(entrypoint=("/bin/sh", "-c", "exec run"))
    assert with_flag({}, "--size {value}", "5", shell) == {"entrypoint": ["/bin/sh", "-c", "exec run --size 5"]}


@pytest.mark.parametrize(
    ("template", "command", "text"),
    [
        ("--size {value}", ["run", "--size", "3"], "3"),
        ("--size={value}MB", ["run", "--size=2GB"], "2GB"),
        ("-c work_mem={value}kB", ["run", "-c", "a=1", "-c", "work_mem=4MB"], "4MB"),
        ("-m {value}", ["run", "-mm", "3"], None),
        ("--pool-size={value}", ["run", "--pool_size=3"], "3"),
        ("--pool_size {value}", ["run", "--pool-size", "3"], "3"),
        ("--size {value}", ["run", "--sizes", "3"], None),
    ],
)
def test_a_flag_of_the_user_s_is_found(template: str, command: list[str], text: str | None) -> None:
    found = Command.of({"command": command}, "").find(template)
    assert (found.text if found else None) == text


@given(WORDS, st.integers(0, 999))
def test_a_flag_that_was_set_is_found_again(words: list[str], value: int) -> None:
    """Whatever the command is: as a list, as one text, and as a shell's line."""
    for entry in ({"command": words}, {"command": shlex.join(words)}, {"command": ["sh", "-c", shlex.join(words)]}):
        command = Command.of(entry, "")
        if command.reason:
            continue
        again = Command.of(command.with_flag("--some-flag={value}k", str(value) + "k").written(), "")
        found = again.find("--some-flag={value}k")
        assert found is not None
        assert found.text.startswith(str(value))
        changed = Command.of(again.with_flag("--some-flag={value}k", "7k").written(), "")
        assert changed.words[: len(command.words)] == command.words
        assert len(changed.words) == len(command.words) + 1
