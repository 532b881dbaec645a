"""Values at key paths of YAML, JSON, TOML, ini and properties files."""

from __future__ import annotations

import configparser
import copy
import io
import json
import tomllib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from framework.config.key_paths import NoPlace, Where, parts_of, shown
from framework.config.keyed_files import format_of, values_at, with_value

YAML_TEXT = """\
# of the team
server:  # HTTP
  threads: {max: 50, min: 5}  # of the pool
  port: "80"
clusters:
  - name: api
    limit: 5
  - name: web
empty:
limits: &limits
  files: 1
other: *limits
third:
  <<: *limits
  size: 2
"""


def changed(old: str, new: str) -> tuple[list[str], list[str]]:
    """Return the lines that only one of two texts has."""
    before, after = old.splitlines(), new.splitlines()
    return [line for line in before if line not in after], [line for line in after if line not in before]


@pytest.mark.parametrize(
    ("key", "value", "removed", "added"),
    [
        ("server.threads.max", "50", ["  threads: {max: 50, min: 5}  # of the pool"],
         ["  threads: {max: 77, min: 5}  # of the pool"]),
        ("server.port", "80", ['  port: "80"'], ['  port: "77"']),
        ("server.a.b", None, [], ["  a:", "    b: 77"]),
        ("clusters[name=api].limit", "5", ["    limit: 5"], ["    limit: 77"]),
        ("clusters[1].limit", None, ["  - name: web"], ["  - limit: 77", "    name: web"]),
        ("empty.a", None, [], ["  a: 77"]),
        ("third.size", "2", ["  size: 2"], ["  size: 77"]),
        ("third.files", "1", [], ["  files: 77"]),
        ("top", None, [], ["top: 77"]),
        ("server.pools[0].size", None, [], ["  pools: [{size: 77}]"]),
    ],
)  # fmt: skip
def test_only_the_value_of_a_yaml_file_changes(
    key: str, value: str | None, removed: list[str], added: list[str]
) -> None:
    assert values_at(YAML_TEXT, "yaml", key) == ((value,) if value is not None else ())
    text = with_value(YAML_TEXT, "yaml", key, "77", string=False)
    assert changed(YAML_TEXT, text) == (removed, added)
    assert values_at(text, "yaml", key)[0] == "77"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("clusters[name=db].limit", "no item of a list is [name=db]"),
        ("clusters[7].limit", "a list has 2 items, and no [7]"),
        ("server.port.a", "the value above a is no mapping"),
        ("server.threads", "server.threads is a mapping, not a value"),
        ("limits.files", "stands in several places (an alias)"),
        ("missing[1].a", "there is no list for missing[1].a"),
    ],
)
def test_a_yaml_file_without_a_place_says_why(key: str, reason: str) -> None:
    with pytest.raises(NoPlace) as error:
        with_value(YAML_TEXT, "yaml", key, "77", string=False)
    assert reason in str(error.value)


def test_names_with_dots_are_names_in_a_mapping_too() -> None:
    text = "server.tomcat:\n  threads.max: 200\n"
    assert values_at(text, "yaml", "server.tomcat.threads.max") == ("200",)
    assert with_value(text, "yaml", "server.tomcat.threads.max", "5", string=False) == text.replace("200", "5")


def test_of_several_documents_the_one_that_has_the_value_changes() -> None:
    text = "a: 1\n---\nb: {c: 2}\n"
    assert with_value(text, "yaml", "b.c", "3", string=False) == "a: 1\n---\nb: {c: 3}\n"
    assert with_value(text, "yaml", "d", "3", string=False) == "d: 3\na: 1\n---\nb: {c: 2}\n"


def test_text_that_yaml_would_read_as_something_else_is_quoted() -> None:
    assert with_value("a: b\n", "yaml", "a", "on", string=True) == 'a: "on"\n'
    assert with_value("a: b\n", "yaml", "a", "on", string=False) == "a: on\n"
    assert with_value("a: b\n", "yaml", "a", "250ms", string=True) == "a: 250ms\n"
    assert with_value("a: 'b'\n", "yaml", "a", "it's", string=True) == "a: 'it''s'\n"


def test_json_keeps_its_layout_and_its_comments() -> None:
    text = '{\n\t"a":1, // one\n\t"b": {"c":"2", "u":"\\/x\\ud83d\\ude00 // no comment"}\n}\n'
    assert values_at(text, "json", "b.c") == ("2",)
    assert with_value(text, "json", "a", "5", string=False) == text.replace('"a":1', '"a":5')
    assert with_value(text, "json", "b.c", "5", string=False) == text.replace('"c":"2"', '"c":"5"')
    assert with_value(text, "json", "b.d", "on", string=False) == text.replace('{"c"', '{"d": "on", "c"')


TOML_TEXT = """\
title = "x"  # t
[server]
threads = 5 # n
http.max = 3
names = [
  "a",
]
[[pool]]
name = "a"
size = 1
[[pool]]
name = "b"
[pool.sub]
ratio = 1.5
[inline]
x = {y = 1}
"""


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("title", 'title = "x"  # t', 'title = "9"  # t'),
        ("server.threads", "threads = 5 # n", "threads = 9 # n"),
        ("server.http.max", "http.max = 3", "http.max = 9"),
        ("server.more", "[server]", "[server]\nmore = 9"),
        ("pool[name=a].size", "size = 1", "size = 9"),
        ("pool[name=b].size", '[[pool]]\nname = "b"', '[[pool]]\nsize = 9\nname = "b"'),
        ("pool[1].sub.ratio", "ratio = 1.5", "ratio = 9"),
        ("top", "[server]", "top = 9\n[server]"),
    ],
)
def test_only_the_line_of_a_toml_file_changes(key: str, old: str, new: str) -> None:
    assert with_value(TOML_TEXT, "toml", key, "9", string=False) == TOML_TEXT.replace(old, new)


def test_a_toml_file_that_cannot_be_changed_line_by_line_says_so() -> None:
    for key in ("inline.x.y", "pool[name=c].size", "server", "title.x"):
        with pytest.raises(NoPlace):
            with_value(TOML_TEXT, "toml", key, "9", string=False)


INI_TEXT = '; first\nkey=1\n[a.b]\nx = 1 ; why\nq = "v"\n[empty]\n'


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("key", "1", "key=1", "key=9"),
        ('"a.b".x', "1", "x = 1 ; why", "x = 9 ; why"),
        ('"a.b".q', "v", 'q = "v"', 'q = "9"'),
        ('"a.b".n', None, 'q = "v"', 'q = "v"\nn = 9'),
        ("empty.n", None, "[empty]", "[empty]\nn = 9"),
        ("new.n", None, "[empty]\n", "[empty]\n\n[new]\nn = 9\n"),
    ],
)
def test_only_the_line_of_an_ini_file_changes(key: str, value: str | None, old: str, new: str) -> None:
    assert values_at(INI_TEXT, "ini", key) == ((value,) if value is not None else ())
    assert with_value(INI_TEXT, "ini", key, "9", string=False) == INI_TEXT.replace(old, new)


def test_only_the_line_of_a_properties_file_changes() -> None:
    text = "# first\na.b = 1\nlong=a\\\n  a.c=5\na.c: x y\n"
    assert values_at(text, "properties", "a.c") == ("x y",)
    assert with_value(text, "properties", "a.b", "9", string=False) == text.replace("= 1", "= 9")
    assert with_value(text, "properties", "a.c", "9", string=False) == text.replace("x y", "9")
    assert with_value(text, "properties", "d.e", "9", string=False) == text + "d.e=9\n"
    with pytest.raises(NoPlace, match="goes on in the next line"):
        with_value(text, "properties", "long", "9", string=False)


@pytest.mark.parametrize("text", ["", "a..b", "a[", "a[x]", "a.[0]", '"a', "a[*]", "[name=x]"])
def test_text_that_is_no_key_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names separated by dots"):
        parts_of(text)


def test_a_key_path_is_written_as_it_is_read() -> None:
    for text in ("a.b", 'a."b.c".d', "a[0].b", "a[*].b", "[2].a", "a[name=x y].b[1]"):
        assert shown(parts_of(text)) == text
    assert parts_of("a[k=v].b") == ("a", Where("k", "v"), "b")


def test_the_extension_names_the_format() -> None:
    assert [format_of(f"/etc/a.{end}") for end in ("yml", "JSON", "toml", "cnf", "conf")] == [
        "yaml", "json", "toml", "ini", None,
    ]  # fmt: skip


# --------------------------------------------------------------------------- properties

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: name not in ("y", "n", "on", "no"))
SCALARS = st.one_of(st.integers(-999, 9999), st.booleans(), st.text("abc xyz#:'\"{}[]", max_size=8))
TREES = st.recursive(
    st.dictionaries(NAMES, SCALARS, min_size=1, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(SCALARS, inner), min_size=1, max_size=4),
    max_leaves=12,
)


def leaf_of(data: st.DataObject, tree: dict[str, Any]) -> list[str]:
    """Return the path of a scalar of a tree, or of a new one."""
    path: list[str] = []
    at: Any = tree
    while isinstance(at, dict):
        name = data.draw(st.one_of(st.sampled_from(sorted(at)), NAMES))
        path.append(name)
        at = at.get(name)
    return path


def put(tree: dict[str, Any], path: list[str], value: int) -> dict[str, Any]:
    result = copy.deepcopy(tree)
    at = result
    for name in path[:-1]:
        at = at.setdefault(name, {})
    at[path[-1]] = value
    return result


def reads_back(text: str, tree: dict[str, Any]) -> bool:
    """Return whether the library can read what it wrote: not so where `:'` begins a line of a mapping in braces."""
    try:
        return bool(YAML(typ="safe", pure=True).load(text) == tree)
    except YAMLError:
        return False


@given(st.data(), TREES, st.integers(0, 9999))
def test_the_rest_of_a_yaml_file_means_what_it_meant(data: st.DataObject, tree: dict[str, Any], value: int) -> None:
    yaml = YAML()
    yaml.default_flow_style = data.draw(st.booleans())
    stream = io.StringIO()
    yaml.dump(tree, stream)
    assume(reads_back(stream.getvalue(), tree))
    path = leaf_of(data, tree)
    text = with_value(stream.getvalue(), "yaml", ".".join(path), str(value), string=False)
    read = YAML(typ="safe").load(text)
    was_text = isinstance(_at(tree, path), str)
    assert _at(read, path) in (value, str(value) if was_text else value)
    assert put(read, path, value) == put(tree, path, value)


@given(st.data(), TREES, st.integers(0, 9999), st.sampled_from([None, 2, "\t"]))
def test_the_rest_of_a_json_file_means_what_it_meant(
    data: st.DataObject, tree: dict[str, Any], value: int, indent: int | str | None
) -> None:
    path = leaf_of(data, tree)
    text = with_value(json.dumps(tree, indent=indent), "json", ".".join(path), str(value), string=False)
    read = json.loads(text)
    assert put(read, path, value) == put(tree, path, value)
    assert str(_at(read, path)) == str(value)


def _at(tree: Any, path: list[str]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def as_toml(tree: dict[str, Any], above: str = "") -> str:
    """Write a tree as tables."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in tree.items() if not isinstance(value, dict)]
    for name, value in tree.items():
        if isinstance(value, dict):
            lines.append(f"[{above}{name}]\n{as_toml(value, f'{above}{name}.')}")
    return "\n".join(lines)


@given(st.data(), TREES, st.integers(0, 9999))
def test_the_rest_of_a_toml_file_means_what_it_meant(data: st.DataObject, tree: dict[str, Any], value: int) -> None:
    path = leaf_of(data, tree)
    text = with_value(as_toml(tree), "toml", ".".join(path), str(value), string=False)
    read = tomllib.loads(text)
    assert put(read, path, value) == put(tree, path, value)
    assert str(_at(read, path)) == str(value)


@given(st.data(), st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(0, 99), max_size=4), max_size=4))
def test_the_rest_of_an_ini_file_means_what_it_meant(data: st.DataObject, tree: dict[str, dict[str, int]]) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict({section: {name: str(number) for name, number in keys.items()} for section, keys in tree.items()})
    stream = io.StringIO()
    parser.write(stream)
    section = data.draw(st.one_of(NAMES, st.sampled_from([*sorted(tree), "more"])))
    key = data.draw(NAMES)
    text = with_value(stream.getvalue(), "ini", f"{section}.{key}", "777", string=False)
    again = configparser.ConfigParser(interpolation=None)
    again.read_string(text)
    parser.read_dict({section: {key: "777"}})
    assert {name: dict(keys) for name, keys in again.items()} == {name: dict(keys) for name, keys in parser.items()}
