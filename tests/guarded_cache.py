"""A pretended machine whose cache a guard divides, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from framework.testbeds.host.cache_ways import CacheWays
from framework.testbeds.host.journal import Journal, boot_id, undo_of_files
from framework.testbeds.host.resctrl import ROOT, Resctrl
from framework.testing.pretend_resctrl import CacheMachine, PretendResctrl

LC, BE = f"{ROOT}/tailor-lc", f"{ROOT}/tailor-be"
GBS = 40.0


class GuardedCache:
    """LC: processes 100 (threads 101, 102) and 110.  BE: 200 (thread 201).  900: of nobody.

    A user's group has 110, and a MON group of the root 200; masks and limits of the root are a user's too.
    """

    def __init__(self, machine: CacheMachine, directory: Path) -> None:
        self.files = PretendResctrl(machine)
        self.lc, self.be = [100, 110], [200]
        self.files.start(100, threads=(101, 102))
        self.files.start(110)
        self.files.start(200, threads=(201,))
        self.files.start(900)
        self.files.make(f"{ROOT}/theirs")
        self.files.write(f"{ROOT}/theirs/tasks", "110\n")
        if machine.rmids:
            self.files.make(f"{ROOT}/mon_groups/watched")
            self.files.write(f"{ROOT}/mon_groups/watched/tasks", "200\n")
        if machine.bandwidth:
            self.files.write(f"{ROOT}/schemata", f"MB:{machine.ids[0]}=100\n")
        self.path = directory / "guard" / "journal"
        self.before = self.files.tree()

    def journal(self) -> Journal:
        """Open the journal, as a guard that starts does."""
        return Journal(self.path, boot_id(self.files), undo_of_files(self.files))

    def actuator(self, gbs: float = GBS) -> CacheWays:
        return CacheWays(self.files, self.journal(), lambda: list(self.lc), lambda: list(self.be), gbs)

    def masks(self, group: str) -> set[int]:
        """Return all masks of a group's caches."""
        values = Resctrl(self.files).schemata(group)
        return {mask for name, by_id in values.items() if name != "MB" for mask in by_id.values()}

    def refuse_at(self, number: int, reason: str) -> Callable[[str, str], str]:
        """Return a hook that refuses the change of this number, from 1, once."""
        left = number

        def refuse(operation: str, path: str) -> str:
            nonlocal left
            left -= 1
            return reason if left == 0 else ""

        return refuse
