"""Clock skew: the children that are shifted, by how much, and the spans that move with them."""

from __future__ import annotations

import pytest

from framework.critical_path.skew import Mode, adjusted
from tests.span_tables import Row, span_table

ROOT = Row("a", 100, 200, host="h1", address="1")


def starts(rows: list[Row], mode: Mode) -> list[int]:
    table = adjusted(span_table(rows), mode)
    lengths = (table.end_ns - table.start_ns).tolist()
    assert lengths == [row.end - row.start for row in rows]
    return [int(start) for start in table.start_ns]


@pytest.mark.parametrize(
    ("child", "start"),
    [
        (Row("b", 120, 180, 0), 120),  # inside: no shift
        (Row("b", 20, 60, 0), 130),  # centred: 100 + (100 - 40) / 2
        (Row("b", 190, 230, 0), 130),
        (Row("b", 50, 250, 0), 100),  # longer than its parent: not before it
        (Row("b", 110, 310, 0), 110),
        (Row("b", 61, 100, 0), 130),  # an odd rest is rounded down: 100 + 61 // 2
    ],
)
def test_a_child_of_another_host(child: Row, start: int) -> None:
    away = child._replace(host="h2", address="2")
    assert starts([ROOT, away], "auto")[1] == start
    assert starts([ROOT, away], "on")[1] == start
    assert starts([ROOT, away], "off")[1] == child.start
    here = child._replace(host="h1", address="1")
    assert starts([ROOT, here], "auto")[1] == child.start
    assert starts([ROOT, here], "on")[1] == child.start


def test_containers_of_one_machine_share_its_clock_though_their_addresses_differ() -> None:
    child = Row("b", 20, 60, 0, host="h1", address="2")
    assert starts([ROOT, child], "auto")[1] == 20
    assert starts([ROOT, child], "on")[1] == 130


def test_where_the_host_is_not_known() -> None:
    child = Row("b", 20, 60, 0)
    assert starts([ROOT, child], "auto")[1] == 20
    assert starts([ROOT, child], "on")[1] == 130


def test_what_is_below_on_the_same_host_moves_along() -> None:
    rows = [
        ROOT,
        Row("b", 20, 60, 0, host="h2"),
        Row("b", 30, 40, 1, host="h2"),
        Row("b", 32, 38, 2),  # unknown: as its parent
        Row("c", 33, 35, 3, host="h3"),  # not where its parent was shifted to: centred in it
        Row("a", 145, 150, 1, host="h1"),  # back on the first host, inside the shifted parent
    ]
    assert starts(rows, "auto") == [100, 130, 140, 142, 144, 145]
