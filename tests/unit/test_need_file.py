"""A need is read with its units, and a bad one is refused with its place, what was found and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from framework.config.need_file import load_need
from framework.errors import FileError
from framework.model.capacity import Current, Interval

EXAMPLE = Path(__file__).parents[2] / "examples" / "need.yaml"
GOOD = "kind: need\nversion: 1\nreads: 10M/s\nwrites: 500k/s\nstored: 1TB\nrecord: 1KiB\n"


def read(text: str, directory: Path) -> None:
    path = directory / "need.yaml"
    path.write_text(text)
    load_need(path)


def test_units_are_read() -> None:
    need = load_need(EXAMPLE)
    assert need.reads == Interval(8e6, 10e6, 12e6)
    assert need.stored == Interval.exactly(1e12)
    assert need.connection.likely == 4 * 1024
    assert need.clients == Interval(1e3, 1e4, 1e5)
    assert need.latency_s is not None
    assert need.latency_s.likely == pytest.approx(1e-3)
    assert need.growth == Interval(1.5, 2.0, 2.5)
    assert (need.replicas, need.failure_domains, need.load_factor, need.headroom) == (2, 2, 0.8, 0.2)


BAD = {
    "no reads and no writes": ("reads: 10M/s\nwrites: 500k/s\n", "", "reads, writes or both"),
    "reads of zero": ("reads: 10M/s", "reads: 0/s", "reads: found '0/s'; allowed: a rate above 0"),
    "negative reads": ("reads: 10M/s", "reads: -5/s", "reads: found '-5/s'; allowed: a rate above 0"),
    "reads without a unit": ("reads: 10M/s", "reads: 10000000", "reads: found 10000000; allowed: a rate above 0"),
    "reads per nothing": ("reads: 10M/s", "reads: 10M", "found '10M'; allowed: a rate above 0"),
    "reads per week": ("reads: 10M/s", "reads: 10M/w", "a rate above 0 per s, min, h or d, such as 10M/s"),
    "a comma": ("reads: 10M/s", "reads: '1,000/s'", "reads: found '1,000/s'; allowed: a rate above 0"),
    "a comma, mended": ("reads: 10M/s", "reads: '1,000/s'", "; without commas"),
    "spaces": ("reads: 10M/s", "reads: 100 / s", "; without spaces"),
    "more bytes than there are": ("stored: 1TB", "stored: 99999999999PB", "at most 10^21, in the unit without"),
    "availability in percent": (
        "record: 1KiB", "record: 1KiB\navailability: 99.9%",
        "availability: found '99.9%'; allowed: a mapping with the keys replicas, failure_domains",
    ),
    "yes as snapshots": (
        "record: 1KiB", "record: 1KiB\nsnapshots: yes", "allowed: a mapping with the keys kept, every",
    ),
    "low above likely": (
        "reads: 10M/s", "reads: {low: 11M/s, likely: 10M/s, high: 12M/s}",
        "line 3: reads: found 'low 11M/s, likely 10M/s, high 12M/s'; allowed: low <= likely <= high",
    ),
    "nothing as reads": ("reads: 10M/s", "reads:", "reads: found 'nothing'; allowed: a value, or no such key"),
    "reads as a list": ("reads: 10M/s", "reads: [1/s, 2/s]", "reads: found 'a list of 2'; allowed: a rate"),
    "reads that are words": ("reads: 10M/s", "reads: many", "reads: found 'many'; allowed: a rate"),
    "true as reads": ("reads: 10M/s", "reads: true", "reads: found True; allowed: a rate"),
    "more reads than bytes in the world": ("reads: 10M/s", "reads: 99999999999999G/s", "at most 10^21"),
    "likely above high": (
        "reads: 10M/s", "reads: {low: 1M/s, likely: 10M/s, high: 9M/s}", "allowed: low <= likely <= high"
    ),
    "an interval without its middle": ("reads: 10M/s", "reads: {low: 1M/s, high: 9M/s}", "the key 'likely'"),
    "an interval with another key": (
        "reads: 10M/s", "reads: {low: 1/s, mid: 2/s, high: 3/s}", "reads.mid: found 'mid'; allowed: the keys low"
    ),
    "a bad end of an interval": (
        "reads: 10M/s", "reads: {low: 0/s, likely: 2/s, high: 3/s}", "reads.low: found '0/s'; allowed: a rate above 0"
    ),
    "bytes without a unit": ("stored: 1TB", "stored: 1000000", "stored: found 1000000; allowed: bytes above 0"),
    "bits": ("stored: 1TB", "stored: 8Tb", "stored: found '8Tb'; allowed: bytes above 0 with their unit"),
    "nothing stored": ("stored: 1TB", "stored: 0TB", "stored: found '0TB'; allowed: bytes above 0"),
    "no key stored": ("stored: 1TB\n", "", "the key 'stored'"),
    "no key record": ("record: 1KiB\n", "", "the key 'record'"),
    "a record larger than all": ("record: 1KiB", "record: 2TB", "line 6: record: found '2TB'; allowed: a record"),
    "a misspelt key": ("reads: 10M/s", "read: 10M/s", "did you mean 'reads'?"),
    "another version": ("version: 1", "version: 2", "version: found 2; allowed: 1"),
    "another kind": ("kind: need", "kind: jobs", "kind: found 'jobs'; allowed: 'need'"),
    "half a client": ("record: 1KiB", "record: 1KiB\nclients: 0.5", "clients: found 0.5; allowed: a number of"),
    "negative clients": ("record: 1KiB", "record: 1KiB\nclients: -3", "clients: found -3; allowed: a number of"),
    "connections of nobody": ("record: 1KiB", "record: 1KiB\nconnection: 1KiB", "both of the keys 'clients'"),
    "clients without connections": ("record: 1KiB", "record: 1KiB\nclients: 5", "both of the keys 'clients' and 'conn"),
    "latency without a unit": ("record: 1KiB", "record: 1KiB\nlatency: 1", "latency: found 1; allowed: a time above 0"),
    "no latency at all": ("record: 1KiB", "record: 1KiB\nlatency: 0ms", "latency: found '0ms'; allowed: a time"),
    "growth without percent": (
        "record: 1KiB", "record: 1KiB\ngrowth: {per_year: 1.5, years: 3}", "growth per year in percent, such as 50%"
    ),
    "growth to nothing": (
        "record: 1KiB", "record: 1KiB\ngrowth: {per_year: -100%, years: 3}", "growth.per_year: found '-100%'"
    ),
    "growth in no years": (
        "record: 1KiB", "record: 1KiB\ngrowth: {per_year: 5%, years: 0}", "growth.years: found 0; allowed: greater than"
    ),
    "no replicas": ("record: 1KiB", "record: 1KiB\navailability: {replicas: 0}", "replicas: found 0; allowed: greater"),
    "domains without copies": (
        "record: 1KiB", "record: 1KiB\navailability: {failure_domains: 3}", "at least 2 replicas with 2 or more"
    ),
    "a load factor of 80": ("record: 1KiB", "record: 1KiB\nload_factor: 80", "load_factor: found 80; allowed: a share"),
    "an empty table": ("record: 1KiB", "record: 1KiB\nload_factor: 0%", "load_factor: found '0%'; allowed: a share"),
    "all as headroom": ("record: 1KiB", "record: 1KiB\nheadroom: 100%", "headroom: found '100%'; allowed: a share"),
    "negative headroom": ("record: 1KiB", "record: 1KiB\nheadroom: -0.1", "headroom: found -0.1; allowed: a share"),
    "snapshots without a period": (
        "record: 1KiB", "record: 1KiB\nsnapshots: {every: 5}", "snapshots.every: found 5; allowed: a time above 0"
    ),
    "a cache worse than none": (
        "record: 1KiB", "record: 1KiB\ndisk: {cached: 50%, hits: 10%, read: 100us}", "hits of at least the share"
    ),
    "no machine now": ("record: 1KiB", "record: 1KiB\ncurrent: {nodes: 3}", "current: found 'nothing'; allowed: the"),
    "no machines now": ("record: 1KiB", "record: 1KiB\ncurrent: {machine: m, nodes: 0}", "current.nodes: found 0"),
    "half a machine now": ("record: 1KiB", "record: 1KiB\ncurrent: {machine: m, nodes: 1.5}", "nodes: found 1.5"),
    "machines for nothing": (
        "record: 1KiB", "record: 1KiB\ncurrent: {machine: m, nodes: 2, price_per_hour: 0}", "price_per_hour: found 0"
    ),
    "a cache of all": (
        "record: 1KiB", "record: 1KiB\ndisk: {cached: 1, hits: 1, read: 100us}", "disk.cached: found 1; allowed:"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "says"), BAD.values(), ids=BAD)
def test_a_bad_need_is_refused_with_its_place(good: str, bad: str, says: str, tmp_path: Path) -> None:
    read(GOOD, tmp_path)
    assert good in GOOD
    with pytest.raises(FileError) as caught:
        read(GOOD.replace(good, bad), tmp_path)
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(tmp_path / "need.yaml"))
    assert re.search(r": found .+; allowed: .+", message)
    assert "\n" not in message


def test_rates_per_day_are_read(tmp_path: Path) -> None:
    path = tmp_path / "need.yaml"
    path.write_text(GOOD.replace("10M/s", "86.4k/d"))
    assert load_need(path).reads.likely == pytest.approx(1.0)


def test_what_runs_now_is_read(tmp_path: Path) -> None:
    path = tmp_path / "need.yaml"
    path.write_text(GOOD + "current: {machine: m5.4xlarge, nodes: 40, region: eu-west-1, price_per_hour: 0.5}\n")
    assert load_need(path).current == Current("m5.4xlarge", 40, "eu-west-1", price_per_hour=0.5)
