"""toplev during a load, played by a program that behaves like it: it counts while its command runs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from framework.errors import InputError
from framework.testbeds.host.counters import read_toplev
from framework.testbeds.host.toplev import Toplev

RECORDED = Path(__file__).resolve().parents[1] / "cases" / "perf" / "toplev.csv"

PLAYED = """#!/usr/bin/env python3
import pathlib, subprocess, sys
given = dict(zip(sys.argv, sys.argv[1:]))
at = sys.argv.index("--pid")
assert given["-x"] == "," and sys.argv[at + 1] == "7,8"
code = subprocess.run(sys.argv[at + 2:]).returncode
pathlib.Path(given["-o"]).write_text(pathlib.Path(RECORDED).read_text())
sys.exit(code or FAILS)
"""


def played(directory: Path, text: Path = RECORDED, fails: int = 0) -> Toplev:
    program = directory / "toplev"
    program.write_text(PLAYED.replace("RECORDED", repr(str(text))).replace("FAILS", str(fails)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Toplev(str(program))


def test_shares_of_three_levels() -> None:
    assert read_toplev(RECORDED.read_text()) == pytest.approx(
        {
            "Frontend_Bound": 0.284,
            "Bad_Speculation": 0.0,
            "Backend_Bound": 0.217,
            "Retiring": 0.499,
            "Backend_Bound.Memory_Bound": 0.141,
            "Backend_Bound.Memory_Bound.L1_Bound": 0.08,
        }
    )


@pytest.mark.parametrize("text", ["", "BE Backend_Bound 12.0 % Slots\n", "Area,Value,Unit,Multiplex\nRetiring,x,%,\n"])
def test_what_toplev_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="toplev"):
        read_toplev(text)


def test_it_counts_until_the_block_ends(tmp_path: Path) -> None:
    toplev = played(tmp_path)
    assert toplev.installed()
    with toplev.counted([7, 8]) as told:
        assert told() == {}
    assert told()["Retiring"] == pytest.approx(0.499)


def test_where_it_fails_or_writes_something_else_there_are_no_shares(tmp_path: Path) -> None:
    with played(tmp_path, fails=1).counted([7, 8]) as told:
        pass
    assert told() == {}
    other = tmp_path / "other.csv"
    other.write_text("of another version\n")
    with played(tmp_path, other).counted([7, 8]) as told:
        pass
    assert told() == {}


def test_a_machine_without_it() -> None:
    assert not Toplev("toplev-that-is-not-there").installed()
