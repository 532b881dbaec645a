"""Mounted files: the search for them, edits of them, and the messages where a file does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.compose.files import (
    edited,
    mounted,
    remounted,
    with_absolute_paths,
    with_absolute_sources,
)
from framework.errors import FileError, InputError
from framework.model import Edit

EDIT = Edit("/etc/x.conf", r"^\s*size\s", "  size {value};", after=r"^\s*block\s*\{\s*$", unless=0)


def edit(text: str, value: int = 5, change: Edit = EDIT) -> str:
    return edited(text, change, value, str(value), InputError)


def test_matching_lines_are_replaced() -> None:
    assert edit("block {\n size 1;\n}\nsize 2;\n") == "block {\n  size 5;\n}\n  size 5;\n"


def test_otherwise_a_line_follows_each_anchor() -> None:
    assert edit("block {\n}\nblock {\n}\n") == "block {\n  size 5;\n}\nblock {\n  size 5;\n}\n"


def test_without_an_anchor_it_ends_the_file() -> None:
    assert edit("a\nb", change=Edit("/x", "^size", "size {value}")) == "a\nb\nsize 5\n"


def test_unless_leaves_the_text_as_it_is() -> None:
    assert edit("block {\n}\n", 0) == "block {\n}\n"
    assert edit("block {\n}\n", 0, Edit("/x", "^a", "a {value}", "^block", unless=False)) == "block {\na 0\n}\n", (
        "0 is not false"
    )


def test_a_file_without_the_anchor_is_refused_whatever_the_value() -> None:
    for value in (0, 5):
        with pytest.raises(InputError, match=r"/etc/x.conf has no line 'block {', after which 'size {value};' belongs"):
            edit("other { }\n", value)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["block {", "}", "  size 1;", "other", ""]), max_size=12), st.integers(1, 99))
def test_an_edit_done_twice_is_an_edit_done_once(lines: list[str], value: int) -> None:
    text = "\n".join(["block {", *lines]) + "\n"
    once = edit(text, value)
    assert edit(once, value) == once
    assert [line for line in once.splitlines() if "size" not in line] == [
        line for line in text.splitlines() if "size" not in line
    ]


@pytest.mark.parametrize(
    "mount", ["{}/x.conf:/etc/x.conf:ro", {"type": "bind", "source": "{}/x.conf", "target": "/etc/x.conf"}]
)
def test_a_mounted_file_is_replaced_by_the_rendered_one(mount: Any, tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("text\n")
    if isinstance(mount, str):
        given: Any = mount.format(tmp_path)
    else:
        given = {**mount, "source": mount["source"].format(tmp_path)}
    file = mounted("s", ["data:/data", given], "/etc/x.conf")
    assert file.text == "text\n"
    volumes, name = remounted(["data:/data", given], file, "s", "/etc/x.conf")
    assert name == "files/s/etc-x.conf"
    wanted = f"./{name}:/etc/x.conf:ro" if isinstance(mount, str) else {**mount, "source": f"./{name}"}
    assert volumes == ["data:/data", wanted]


def test_a_file_of_a_mounted_directory_is_laid_over_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.conf").write_text("text\n")
    volumes = [f"{tmp_path}:/etc/server:ro"]
    file = mounted("s", volumes, "/etc/server/sub/x.conf")
    assert file.text == "text\n"
    changed, name = remounted(volumes, file, "s", "/etc/server/sub/x.conf")
    assert changed == [*volumes, f"./{name}:/etc/server/sub/x.conf:ro"]


def test_a_file_that_is_not_mounted() -> None:
    message = (
        r"web: a tuned parameter is set in /etc/x.conf, .* add `volumes: \[./x.conf:/etc/x.conf:ro\]` to the service"
    )
    for volumes in ([], ["conf:/etc/x.conf"], ["/a:/etc/x"], ["/etc/x.conf"]):
        with pytest.raises(InputError, match=message):
            mounted("web", list(volumes), "/etc/x.conf")


def test_a_mounted_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the text file that s sees as /etc/x\.conf"):
        mounted("s", [f"{tmp_path}/missing:/etc/x.conf"], "/etc/x.conf")


def test_host_paths_become_absolute_and_others_stay() -> None:
    service = {
        "volumes": ["./a:/a", "../b:/b:ro", "data:/data", "/abs:/abs", "~/home:/home", "/anonymous", "${DIR}/c:/c",
                    {"type": "bind", "source": "./d", "target": "/d"}, {"type": "tmpfs", "target": "/e"}],
        "build": {"context": "./image", "dockerfile": "Dockerfile.dev"},
        "env_file": ["a.env", {"path": "b.env", "required": False}],
        "image": "x",
    }  # fmt: skip
    absolute = with_absolute_paths(service, Path("/app"))
    assert absolute == {
        "volumes": ["/app/a:/a", "/b:/b:ro", "data:/data", "/abs:/abs", "~/home:/home", "/anonymous", "${DIR}/c:/c",
                    {"type": "bind", "source": "/app/d", "target": "/d"}, {"type": "tmpfs", "target": "/e"}],
        "build": {"context": "/app/image", "dockerfile": "Dockerfile.dev"},
        "env_file": ["/app/a.env", {"path": "/app/b.env", "required": False}],
        "image": "x",
    }  # fmt: skip
    assert with_absolute_paths({"build": "."}, Path("/app")) == {"build": "/app"}
    assert with_absolute_paths({"build": "https://example.org/x.git"}, Path("/app"))["build"].startswith("https")
    assert with_absolute_sources({"a": {"file": "./k"}, "b": {"external": True}}, Path("/app")) == {
        "a": {"file": "/app/k"}, "b": {"external": True},
    }  # fmt: skip


def test_a_dollar_in_a_path_is_escaped_and_a_colon_is_refused() -> None:
    assert with_absolute_paths({"volumes": ["./a:/a"]}, Path("/cash$"))["volumes"] == ["/cash$$/a:/a"]
    with pytest.raises(InputError, match="a colon in the path"):
        with_absolute_paths({"volumes": ["./a:/a"]}, Path("/a:b"))
