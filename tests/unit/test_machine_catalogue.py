"""A catalogue is read as written: what is missing is missing, and a bad one is refused with its place."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path

import pytest

from framework.config.machine_catalogue import load_catalogue
from framework.errors import FileError

ROOT = Path(__file__).parents[2]
EC2 = ROOT / "framework" / "capacity" / "data" / "ec2-2023-08.json.gz"
GOOD = """\
kind: machine-catalogue
version: 1
provider: somebody
region: here
purchase: on-demand
currency: EUR
per: hour
priced_on: 2023-08-06
source: a page
types:
  - {name: small, price: 0.5, cores: 4, vcpus: 8, ram_gib: 16}
  - {name: large, prices: {here: 4.0, there: 5.0}, vcpus: 64}
"""


def read(text: str, directory: Path, name: str = "machines.yaml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    small, here, there = load_catalogue(read(GOOD, tmp_path))
    assert (small.price_per_hour, small.cores, small.ram_gib) == (0.5, 4, 16)
    assert (small.network_gbps, small.disk_gib, small.iops, small.clock_ghz) == (None, None, None, None)
    assert [(machine.region, machine.price_per_hour) for machine in (here, there)] == [("here", 4.0), ("there", 5.0)]
    assert here.busy_cores() == 32, "two hardware threads a core where nothing else is known"


def test_prices_become_those_of_an_hour(tmp_path: Path) -> None:
    yearly = load_catalogue(read(GOOD.replace("per: hour", "per: year"), tmp_path))[0]
    monthly = load_catalogue(read(GOOD.replace("per: hour", "per: month"), tmp_path))[0]
    assert yearly.price_per_hour == pytest.approx(0.5 / 8760)
    assert monthly.price_per_hour == pytest.approx(0.5 / 730)


def test_a_price_by_parts_is_the_sum_of_the_source() -> None:
    machine = load_catalogue(ROOT / "examples" / "machines.yaml")[-1]
    assert machine.price_per_hour is not None
    assert round(machine.price_per_hour, 2) == 140.82


def test_the_shipped_catalogue_names_its_source_and_has_no_zeros() -> None:
    machines = load_catalogue(EC2)
    assert len(machines) > 1000
    assert {machine.priced_on for machine in machines} == {"2023-08-06"}
    assert all("apache-libcloud" in machine.source for machine in machines)
    for machine in machines:
        sizes = (machine.price_per_hour, machine.vcpus, machine.cores, machine.ram_gib, machine.network_gbps)
        assert 0 not in sizes, machine.name
    assert all(machine.vcpus is None for machine in machines if machine.name.startswith("t3."))
    [metal] = [machine for machine in machines if machine.name == "i3en.24xlarge" and machine.region == "us-east-1"]
    assert metal.disk_gib == pytest.approx(60_000e9 / 2**30, abs=0.1)


def test_the_script_leaves_out_what_is_missing() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "catalogue"))
    extra = {"vcpu": "8", "networkPerformance": "Up to 10 Gigabit", "storage": "EBS only"}
    described = {"ram": 16384, "disk": 0, "extra": {**extra, "physicalProcessor": "Intel", "clockSpeed": "2.3 GHz"}}
    made = script["machine"]("m9.large", described, {"r": 1.0})
    assert made == {
        "name": "m9.large", "prices": {"r": 1.0}, "processor": "Intel", "vcpus": 8, "clock_ghz": 2.3,
        "ram_gib": 16.0, "disk_gib": 0.0,
    }  # fmt: skip
    prices = {"updated": 0, "compute": {"ec2_linux": {"m9.large": {"r": 0.0, "s": 2.0}, "unknown": {"r": 1.0}}}}
    types = script["catalogue"](prices, {"m9.large": described}, ["r", "s"])["types"]
    assert [(entry["name"], entry["prices"]) for entry in types] == [("m9.large", {"s": 2.0})]


BAD = {
    "a price of zero": ("price: 0.5", "price: 0", "types[0].price: found 0; allowed: greater than 0"),
    "memory of zero": ("ram_gib: 16", "ram_gib: 0", "types[0].ram_gib: found 0; allowed: greater than 0"),
    "a price as text": ("price: 0.5", "price: 0.5 EUR", "types[0].price: found '0.5 EUR'"),
    "two kinds of price": ("price: 0.5", "price: 0.5, prices: {here: 1.0}", "one of price, prices, price_of"),
    "parts without sizes": ("price: 0.5, cores: 4", "price_of: {core: 1, ram_gib: 1}", "cores and ram_gib where"),
    "more cores than threads": ("cores: 4", "cores: 16", "no more cores than vcpus"),
    "no source": ("source: a page\n", "", "the key 'source'"),
    "no currency": ("currency: EUR", "currency: euros", "currency: found 'euros'"),
    "an impossible date": ("2023-08-06", "2023-13-06", "priced_on: found '2023-13-06'; allowed: a date such as"),
    "per day": ("per: hour", "per: day", "per: found 'day'; allowed: 'hour', 'month' or 'year'"),
    "a name twice": ("name: large, prices: {here: 4.0, there: 5.0}", "name: small, price: 1.0", "small twice"),
    "a misspelt size": ("ram_gib: 16", "ram: 16", "types[0].ram: found 'ram'"),
}


@pytest.mark.parametrize(("good", "bad", "says"), BAD.values(), ids=BAD)
def test_a_bad_catalogue_is_refused(good: str, bad: str, says: str, tmp_path: Path) -> None:
    assert good in GOOD
    with pytest.raises(FileError) as caught:
        load_catalogue(read(GOOD.replace(good, bad), tmp_path))
    assert says in str(caught.value)


DAMAGED = {  # gzip writes the time down: named, because every process has to collect the same names
    "no gzip": b"\x1f\x8bnonsense",
    "ends early": gzip.compress(b"[1, 2"),
    "not a number": gzip.compress(b'{"a": NaN}'),
    "empty": b"",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "machines.json.gz"
    path.write_bytes(content)
    with pytest.raises(FileError):
        load_catalogue(path)


def test_a_file_that_unpacks_to_more_than_a_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machines.json.gz"
    path.write_bytes(gzip.compress(b" " * (17 * 2**20)))
    with pytest.raises(FileError, match="at most 16 MiB when unpacked"):
        load_catalogue(path)


@pytest.mark.parametrize(("date", "good"), [("2021", True), ("2021-06", True), ("2021-6", False), ("21", False)])
def test_a_date_is_as_exact_as_it_is_known(date: str, good: bool, tmp_path: Path) -> None:
    path = read(json.dumps({**_document(), "priced_on": date}), tmp_path, "machines.json")
    if good:
        assert load_catalogue(path)[0].priced_on == date
    else:
        with pytest.raises(FileError, match="priced_on"):
            load_catalogue(path)


def _document() -> dict[str, object]:
    return {
        "kind": "machine-catalogue", "version": 1, "provider": "p", "purchase": "spot", "currency": "EUR",
        "per": "hour", "source": "s", "types": [{"name": "n", "price": 1.0}],
    }  # fmt: skip
