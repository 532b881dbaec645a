"""The words of the glossary are those of the code, and words that were given up do not come back."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", (ROOT / "docs/reference/glossary.md").read_text(), re.M)
VOCABULARY = {
    "application", "service type", "parameter", "search space", "configuration", "placement", "deployment", "testbed",
    "twin", "dataset", "workload", "trial", "repetition", "window", "verdict", "observation", "objective", "study",
    "incumbent", "span, trace", "critical path", "self time", "seed",
}  # fmt: skip

# Words for which the field has its own: TTL cache, external session, tied parameters, isolation, dataset, ...
RETIRED = {"lately", "telling", "desk", "namesakes", "namesake", "together", "held", "wish", "wishes", "beside"}
ALLOWED = {"HELD_OUT", "HELD_OUT_TABLES"}  # lists of problems: the field's word
STORED = {"framework/placement/profile.py"}  # "beside" is a key of profiles that people have
EMPTY_NAMES = {"one", "found"}  # of a loop or a result: its element has a name
# Where an input error, or a finding of `tailor doctor`, says what was found: "found" beside "allowed" is its contract.
SAYS_FOUND = (
    "framework/errors.py", "optimizer/errors.py", "framework/config/checked.py", "framework/config/document.py",
    "framework/api/problems.py", "framework/model/deployment.py",
)  # fmt: skip
RIDDLES = ("What ", "The same ")


def sources() -> Iterator[tuple[str, ast.AST]]:
    """(file and line, node) of the whole program."""
    for room in ("framework", "optimizer"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node


def names(node: ast.AST) -> Iterator[str]:
    """Names that a node gives to something."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


@pytest.mark.parametrize(("word", "meaning", "where"), ROWS, ids=[row[0] for row in ROWS])
def test_a_word_is_that_of_the_code(word: str, meaning: str, where: str) -> None:
    *path, last = where.split(".")
    parts = [*path, last]
    for length in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            thing = getattr(thing, name)
        return
    pytest.fail(f"{where} is nowhere")


def test_the_glossary_has_the_vocabulary() -> None:
    assert VOCABULARY - {word for word, _, _ in ROWS} == set()


def test_no_retired_word_is_a_name() -> None:
    assert [
        f"{where} {name}"
        for where, node in sources()
        for name in set(names(node)) - ALLOWED
        if RETIRED & set(name.lower().split("_")) and where.partition(":")[0] not in STORED
    ] == []


def test_names_say_of_what() -> None:
    assert [
        f"{where} {name}"
        for where, node in sources()
        for name in names(node)
        if name in EMPTY_NAMES and not (name == "found" and where.startswith(SAYS_FOUND))
    ] == []


def test_no_docstring_is_a_riddle() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = ((where, ast.get_docstring(node)) for where, node in sources() if isinstance(node, documented))
    assert [f"{where} {text[:40]}" for where, text in texts if text and text.startswith(RIDDLES)] == []
