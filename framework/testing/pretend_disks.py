"""Disks of a pretended kernel: what its control groups read and write, and how much they may.

Rules of cgroup v1, found on Linux 6.18: a limit is of its own group alone; 0 takes it away; nothing is counted on a
disk before some group was given a limit for it, 0 included; then the root shows the disk, and each group that used it.
Rules of v2, by the kernel's documentation: a limit is of a group with all below it, and is not 0; what a group that has
gone read and wrote stays in the counters of those above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.errors import KnobRefused

BLOCK = "/sys/block"
READ, WRITE = "read", "write"
V1_LIMITS = {"blkio.throttle.read_bps_device": READ, "blkio.throttle.write_bps_device": WRITE}
V1_COUNTS = {"blkio.throttle.io_service_bytes": False, "blkio.throttle.io_service_bytes_recursive": True}
V2_KEYS = {"rbps": READ, "wbps": WRITE}
Use = tuple[float, float]
"""Bytes a second that are read and written."""


@dataclass(slots=True)
class PretendDisks:
    """``names``: number -> name.  ``throttles``: whether the kernel was built to limit them.  ``counting``: disks on
    which v1 counts.  ``limits``, ``used``: group -> (disk, direction) -> bytes a second, bytes.
    """

    version: int
    names: dict[str, str] = field(default_factory=lambda: {"254:0": "vda"})
    throttles: bool = True
    counting: set[str] = field(default_factory=set)
    limits: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    used: dict[str, dict[tuple[str, str], float]] = field(default_factory=dict)

    # ------------------------------------------------------------------ the world

    def work(self, wanted: Mapping[str, Use], seconds: float, disk: str = "254:0") -> dict[str, Use]:
        """Let groups read and write for a time; returns what each was let, bytes a second."""
        let = {path: dict(zip((READ, WRITE), use, strict=True)) for path, use in wanted.items()}
        for direction in (READ, WRITE):
            for group in sorted(self.limits, key=len, reverse=True):  # groups below come first
                members = [path for path in let if path == group or (self.version == 2 and _is_below(path, group))]
                limit, total = self.limits[group].get((disk, direction)), sum(let[path][direction] for path in members)
                if limit is not None and total > limit:
                    for path in members:
                        let[path][direction] *= limit / total
            for path, use in let.items():
                if self.version == 2 or disk in self.counting:
                    counters = self.used.setdefault(path, {})
                    counters[disk, direction] = counters.get((disk, direction), 0.0) + use[direction] * seconds
        return {path: (use[READ], use[WRITE]) for path, use in let.items()}

    def waits(self, path: str) -> bool:
        """Return whether what a group's tasks read and write has to wait for a limit."""
        return any(own and (group == path or (self.version == 2 and _is_below(path, group)))
                   for group, own in self.limits.items())  # fmt: skip

    def forget(self, path: str) -> None:
        """Let a group go."""
        self.limits.pop(path, None)
        gone = self.used.pop(path, {})
        if self.version == 2:
            heir = self.used.setdefault(path.rpartition("/")[0], {})
            for key, count in gone.items():
                heir[key] = heir.get(key, 0.0) + count

    # ------------------------------------------------------------------ /sys/block

    def read(self, path: str) -> str:
        """Return a file of a disk.  Raises KnobRefused."""
        _, _, name, *rest = path.split("/")[1:]
        for number, known in self.names.items():
            if known == name and rest in (["dev"], ["size"]):
                return f"{number if rest == ['dev'] else 2048}\n"
        if name == "loop0" and rest == ["size"]:
            return "0\n"
        raise KnobRefused(path, "No such file or directory")

    def entries(self, path: str) -> list[str]:
        return sorted(["loop0", *self.names.values()]) if path == BLOCK else []

    # ------------------------------------------------------------------ a group's files

    def knobs(self, path: str) -> dict[str, str]:
        """Return the files of a group."""
        if not self.throttles:
            return {} if self.version == 1 else {"io.stat": self._v2_counts(path)}
        if self.version == 1:
            limits = {name: self._v1_limits(path, direction) for name, direction in V1_LIMITS.items()}
            return limits | {name: self._v1_counts(path, below) for name, below in V1_COUNTS.items()}
        return {"io.stat": self._v2_counts(path), "io.max": self._v2_limits(path)}

    def set(self, knob: str, path: str, name: str, text: str) -> None:
        """Set a limit.  Raises KnobRefused."""
        disk, *words = text.split()
        if name in V1_LIMITS:
            if len(words) != 1 or not words[0].isdigit():
                raise KnobRefused(knob, "Invalid argument")
            values = {V1_LIMITS[name]: int(words[0]) or None}
        elif name == "io.max":
            values = {}
            for key, _, value in (word.partition("=") for word in words):
                if key not in V2_KEYS or not (value == "max" or value.isdigit()):
                    raise KnobRefused(knob, "Invalid argument")
                if value == "0":
                    raise KnobRefused(knob, "Numerical result out of range")
                values[V2_KEYS[key]] = None if value == "max" else int(value)
        else:
            raise KnobRefused(knob, "Invalid argument")
        if disk not in self.names:
            raise KnobRefused(knob, "No such device")
        self.counting.add(disk)
        for direction, limit in values.items():
            own = self.limits.setdefault(path, {})
            own.pop((disk, direction), None)
            if limit is not None:
                own[disk, direction] = limit

    def _v1_limits(self, path: str, direction: str) -> str:
        own = self.limits.get(path, {})
        return "\n".join(f"{disk} {limit}" for (disk, of), limit in own.items() if of == direction)

    def _v1_counts(self, path: str, below: bool) -> str:
        groups = [group for group in self.used if group == path or (below and _is_below(group, path))]
        lines, all_bytes = list[str](), 0
        for disk in sorted(self.counting):
            counts = {direction: self._count(groups, disk, direction) for direction in (READ, WRITE)}
            total = sum(counts.values())
            if path and not total:
                continue
            rows = {"Read": counts[READ], "Write": counts[WRITE], "Sync": total, "Async": 0, "Discard": 512,
                    "Total": total + 512}  # fmt: skip
            lines += [f"{disk} {name} {count}" for name, count in rows.items()]
            all_bytes += total + 512
        return "\n".join([*lines, f"Total {all_bytes}"])

    def _v2_limits(self, path: str) -> str:
        own, lines = self.limits.get(path, {}), list[str]()
        for disk in sorted({disk for disk, _ in own}):
            read, written = (own.get((disk, direction), "max") for direction in (READ, WRITE))
            lines.append(f"{disk} rbps={read} wbps={written} riops=max wiops=max")
        return "\n".join(lines)

    def _v2_counts(self, path: str) -> str:
        groups, lines = [group for group in self.used if group == path or _is_below(group, path)], list[str]()
        for disk in sorted({disk for group in groups for disk, _ in self.used[group]}):
            read, written = (self._count(groups, disk, direction) for direction in (READ, WRITE))
            lines.append(f"{disk} rbytes={read} wbytes={written} rios=1 wios=1 dbytes=0 dios=0")
        return "\n".join(lines)

    def _count(self, groups: list[str], disk: str, direction: str) -> int:
        return round(sum(self.used[group].get((disk, direction), 0.0) for group in groups))


def _is_below(path: str, group: str) -> bool:
    return path.startswith(f"{group}/")
