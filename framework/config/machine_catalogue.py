"""The schema of a catalogue of machine types with prices, ``kind: machine-catalogue``, version 1, and its reading.

YAML for catalogues that people write; JSON, compressed or not, for the thousands of rows that programs write.
"""

from __future__ import annotations

import datetime
import json
import re
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import Strict, Text, check, refuse
from framework.config.document import Document, read_document
from framework.config.reading import CONFIGURATION_BYTES, MIB, read_bytes
from framework.errors import FileError
from framework.model.capacity import HOURS_PER_YEAR, MachineType

_HOURS = {"hour": 1.0, "month": HOURS_PER_YEAR / 12, "year": float(HOURS_PER_YEAR)}
_PART_OF_DATE = re.compile(r"[0-9]{4}(-[0-9]{2})?")
SHIPPED = Path(__file__).parents[1] / "capacity" / "data"
_GZIP = 16 + zlib.MAX_WBITS

Price = Annotated[float, Field(gt=0, le=1e9)]
Size = Annotated[float, Field(gt=0, le=1e12)]


def _date(text: str) -> str:
    try:
        datetime.date.fromisoformat(text + "-01-01"[len(text) - 4 :] if _PART_OF_DATE.fullmatch(text) else text)
    except ValueError:
        raise refuse("a date such as 2023-08-06, 2023-08 or 2023, as far as it is known") from None
    return text


Date = Annotated[str, AfterValidator(_date)]


class ResourcePrices(Strict):
    """Prices of a machine's parts, where it is priced so."""

    core: Price
    ram_gib: Price


class MachineEntry(Strict):
    """A machine type.  A size or a price that is not known is left out; 0 is never written for it."""

    name: Text
    price: Price | None = Field(None, description="of the machine, in the catalogue's region")
    prices: dict[str, Price] | None = Field(None, description="region -> price of the machine there")
    price_of: ResourcePrices | None = Field(None, description="prices of its cores and memory, in the same currency")
    purchase: Text | None = Field(None, description="another purchase option than the catalogue's")
    processor: str = ""
    vcpus: Size | None = Field(None, description="hardware threads")
    cores: Size | None = Field(None, description="physical cores")
    clock_ghz: Size | None = None
    ram_gib: Size | None = None
    network_gbps: Size | None = Field(None, description="that lasts, in each direction; no burst")
    disk_gib: Annotated[float, Field(ge=0, le=1e12)] | None = Field(None, description="0: it has none of its own")
    disk_mb_s: Size | None = Field(None, description="written to its disks, 10^6 bytes/s")
    iops: Size | None = Field(None, description="reads of a record per second from its disks")

    @model_validator(mode="after")
    def _priced(self) -> MachineEntry:
        if sum(price is not None for price in (self.price, self.prices, self.price_of)) > 1:
            raise refuse("one of price, prices, price_of")
        if self.price_of is not None and (self.cores is None or self.ram_gib is None):
            raise refuse("cores and ram_gib where there is price_of")
        if self.cores is not None and self.vcpus is not None and self.cores > self.vcpus:
            raise refuse("no more cores than vcpus, which are hardware threads")
        return self

    def amounts(self, region: str) -> dict[str, float | None]:
        """Return region -> price."""
        if self.prices is not None:
            return dict(self.prices)
        if self.price_of is not None and self.cores is not None and self.ram_gib is not None:
            return {region: self.cores * self.price_of.core + self.ram_gib * self.price_of.ram_gib}
        return {region: self.price}


class MachineCatalogueFile(Strict):
    """A catalogue: machine types of one provider, and where and when their prices are from."""

    kind: Literal["machine-catalogue"]
    version: Literal[1]
    provider: Text
    region: str = ""
    purchase: Text = Field(description="how it is bought, such as on-demand, reserved-3-years, spot")
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", description="ISO 4217")]
    per: Literal["hour", "month", "year"]
    priced_on: Date
    source: Text = Field(description="where the prices are from, so that somebody can check them")
    types: list[MachineEntry] = Field(min_length=1, max_length=100_000)

    def machines(self) -> list[MachineType]:
        return [
            MachineType(
                name=entry.name,
                provider=self.provider,
                region=region,
                purchase=entry.purchase or self.purchase,
                price_per_hour=None if price is None else price / _HOURS[self.per],
                currency=self.currency,
                priced_on=self.priced_on,
                source=self.source,
                **{name: getattr(entry, name) for name in _SIZES},
            )
            for entry in self.types
            for region, price in entry.amounts(self.region).items()
        ]


_SIZES = (
    "processor", "vcpus", "cores", "clock_ghz", "ram_gib", "network_gbps", "disk_gib", "disk_mb_s", "iops",
)  # fmt: skip


def shipped() -> dict[str, Path]:
    """Return name -> file of the catalogues that come with Tailor."""
    return {path.name.removesuffix("".join(path.suffixes)): path for path in sorted(SHIPPED.glob("*.json.gz"))}


def load_catalogue(path: Path) -> list[MachineType]:
    """Read a catalogue; a type with prices of several regions is one machine type in each.  Raises FileError."""
    document = read_document(path) if path.suffix in (".yaml", ".yml") else _read_json(path)
    file = check(document, MachineCatalogueFile)
    machines = file.machines()
    seen: set[tuple[str, str, str]] = set()
    for machine in machines:
        key = (machine.name, machine.region, machine.purchase)
        if key in seen:
            raise document.error(
                ("types",), f"{machine.name} twice", "each name once for a region and a purchase option"
            )
        seen.add(key)
    return machines


def _read_json(path: Path) -> Document:
    content = read_bytes(path)
    try:
        if path.suffix == ".gz":
            unpacking = zlib.decompressobj(_GZIP)
            content = unpacking.decompress(content, CONFIGURATION_BYTES)
            if unpacking.unconsumed_tail:
                raise FileError(path, "", "a larger file", f"at most {CONFIGURATION_BYTES // MIB} MiB when unpacked")
        data: Any = json.loads(content.decode(), parse_constant=_no_constant)
    except zlib.error:
        raise FileError(path, "", "damaged content", "a file that gzip wrote") from None
    except (ValueError, RecursionError) as error:
        raise FileError(path, "", str(error), "one JSON document") from None
    return Document(path, data, {})


def _no_constant(name: str) -> float:
    raise ValueError(f"the number {name}")
