"""The journal of a guard: whatever ends it, the next one gives everything back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from framework.errors import KnobRefused
from framework.model.guard import NOTHING, Setting
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.journal import Journal, JournalledFiles, boot_id, undo_of_files
from framework.testing.pretend_resctrl import HASWELL, INTEL, CacheMachine
from framework.testing.pretend_resctrl.groups import Groups
from tests.guarded_cache import GuardedCache

OLD = {"/k/a": "1\n", "/k/b": "2-3\n", "/k/c": "", "/k/odd\u2028name": "\u00fcber\x85\n"}


class Crash(BaseException):
    """The end of a process, which nothing catches."""


@dataclass(slots=True)
class Memory:
    """Files in memory; ``before``: called before each change."""

    files: dict[str, str] = field(default_factory=lambda: dict(OLD))
    groups: set[str] = field(default_factory=set)
    before: Callable[[], None] = lambda: None
    refused: set[str] = field(default_factory=set)

    def read(self, path: str) -> str:
        if path not in self.files:
            raise KnobRefused(path, "No such file or directory")
        return self.files[path]

    def write(self, path: str, text: str) -> None:
        self.before()
        if path in self.refused or path not in self.files:
            raise KnobRefused(path, "Device or resource busy")
        self.files[path] = text

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.groups

    def entries(self, path: str) -> list[str]:
        return []

    def make(self, path: str) -> None:
        self.before()
        self.groups.add(path)

    def remove(self, path: str) -> None:
        self.before()
        if path in self.refused:
            raise KnobRefused(path, "Device or resource busy")
        self.groups.discard(path)

    def state(self) -> tuple[dict[str, str], set[str]]:
        return dict(self.files), set(self.groups)


def journal_of(path: Path, files: KernelFiles, boot: str = "boot-1") -> Journal:
    return Journal(path, boot, undo_of_files(files))


def work(files: JournalledFiles) -> None:
    """Touch every file twice, and make groups."""
    for round_ in ("9", "8"):
        for path in OLD:
            files.write(path, round_)
        files.make(f"/k/group{round_}")


@dataclass(slots=True)
class Moment:
    """A state of the kernel and the bytes that the journal may have then, from ``least`` bytes on."""

    files: dict[str, str]
    groups: set[str]
    journal: bytes
    least: int


def moments(path: Path) -> Iterator[Moment]:
    """Yield all moments of ``work``: for each change, the journal as it grows before it."""
    memory, seen = Memory(), list[tuple[dict[str, str], set[str], bytes]]()

    def note() -> None:
        seen.append((*memory.state(), path.read_bytes() if path.exists() else b""))

    memory.before = note
    work(JournalledFiles(memory, journal_of(path, memory)))
    note()
    path.unlink()
    before = b""
    for files, groups, journal in seen:
        yield Moment(files, groups, journal, len(before))
        before = journal


def test_a_crash_after_any_byte_of_the_journal(tmp_path: Path) -> None:
    """Restored at once, or after another guard has worked on: its entries must not be lost in the line cut off."""
    path = tmp_path / "new" / "journal"
    count = 0
    for moment in list(moments(path)):
        for length in range(moment.least, len(moment.journal) + 1):
            for works_on in (False, True):
                memory = Memory(dict(moment.files), set(moment.groups))
                path.write_bytes(moment.journal[:length])
                journal = journal_of(path, memory)
                if works_on:
                    work(JournalledFiles(memory, journal))
                    journal = journal_of(path, memory)
                assert journal.restore() == []
                assert memory.state() == (OLD, set())
                assert not path.exists()
                count += 1
    assert count > 800


def test_a_crash_at_any_change_of_giving_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for at in range(1, 20):
        memory, left = Memory(), at
        work(JournalledFiles(memory, journal_of(path, memory)))

        def crash(memory: Memory = memory) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        memory.before = crash
        try:
            journal_of(path, memory).restore()
            crashed = False
        except Crash:
            crashed = True
        memory.before = lambda: None
        assert journal_of(path, memory).restore() == []
        assert memory.state() == (OLD, set())
        if not crashed:
            assert at == len(OLD) + 2 + 1
            return
    pytest.fail("no end")


@pytest.mark.parametrize("machine", [HASWELL, INTEL], ids=["haswell", "intel"])
def test_a_crash_of_a_guard_of_the_cache(machine: CacheMachine, tmp_path: Path) -> None:
    """At every change, and with the journal cut at places before it: masks, tasks, groups come back."""
    guarded = GuardedCache(machine, tmp_path)
    seen = list[tuple[Groups, bytes]]()

    def note(operation: str = "", path: str = "") -> str:
        seen.append((copy.deepcopy(guarded.files.groups), guarded.path.read_bytes() if guarded.path.exists() else b""))
        return ""

    guarded.files.refuse = note
    actuator = guarded.actuator()
    for setting in (NOTHING, Setting(True, 2, 5), NOTHING):
        actuator.set(setting)
    note()
    guarded.files.refuse = lambda operation, path: ""
    before = b""
    for groups, journal in seen:
        for length in {*range(len(before), len(journal), 29), len(journal) - 1, len(journal)}:
            if length < len(before):
                continue
            guarded.files.groups = copy.deepcopy(groups)
            guarded.path.write_bytes(journal[:length])
            guarded.actuator().restore()
            assert guarded.files.tree() == guarded.before
            assert not guarded.path.exists()
        before = journal


def test_another_run_of_the_kernel_is_left_alone(tmp_path: Path) -> None:
    """After a reboot values of the old kernel mean nothing: nothing is written, and the journal goes."""
    path, memory = tmp_path / "journal", Memory()
    work(JournalledFiles(memory, journal_of(path, memory)))
    state = memory.state()
    memory.before = lambda: pytest.fail("a change")
    later = journal_of(path, memory, "boot-2")
    assert later.entries() == []
    assert later.restore() == []
    assert memory.state() == state
    assert not path.exists()


def test_entries_of_the_last_boot_do_not_hide_knobs_of_this_one(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    JournalledFiles(memory, journal_of(path, memory)).write("/k/a", "5")
    memory.files["/k/a"] = "7"
    JournalledFiles(memory, journal_of(path, memory, "boot-2")).write("/k/a", "6")
    assert journal_of(path, memory, "boot-2").restore() == []
    assert memory.files["/k/a"] == "7"


def test_what_cannot_be_undone_stays(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    work(JournalledFiles(memory, journal_of(path, memory)))
    memory.refused = {"/k/b", "/k/group8"}
    problems = journal_of(path, memory).restore()
    assert problems == ["/k/group8: Device or resource busy", "/k/b: Device or resource busy"]
    assert [entry["knob"] for entry in journal_of(path, memory).entries()] == ["/k/b", "/k/group8"]
    memory.refused = set()
    assert journal_of(path, memory).restore() == []
    assert memory.state() == (OLD, set())


def test_a_knob_that_is_gone_needs_nothing(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    work(JournalledFiles(memory, journal_of(path, memory)))
    del memory.files["/k/b"]
    assert journal_of(path, memory).restore() == []


def test_a_knob_that_goes_while_it_is_given_back_needs_nothing(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    JournalledFiles(memory, journal_of(path, memory)).write("/k/b", "1")
    memory.before = memory.files.clear
    assert journal_of(path, memory).restore() == []
    assert not path.exists()


def test_only_some_are_given_back(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    journal = journal_of(path, memory)
    files = JournalledFiles(memory, journal)
    files.make("/k/group")
    files.make("/k/class", "class")
    files.write("/k/a", "5")
    files.write("/k/b", "5")
    assert journal.restore(below="/k/a") == []
    assert (memory.files["/k/a"], memory.files["/k/b"]) == ("1\n", "5")
    assert journal.restore(but=("group",)) == []
    assert memory.state() == (OLD, {"/k/group"})
    assert journal.restore() == []
    assert memory.state() == (OLD, set())


def test_the_first_value_counts(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    for text in ("5", "6"):
        JournalledFiles(memory, journal_of(path, memory)).write("/k/a", text)
    assert [entry["old"] for entry in journal_of(path, memory).entries()] == ["1\n"]


def test_files_of_a_group_of_ours_need_no_entry(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    files = JournalledFiles(memory, journal_of(path, memory))
    files.make("/k/group")
    memory.files["/k/group/knob"] = "1"
    files.write("/k/group/knob", "2")
    assert [entry["knob"] for entry in journal_of(path, memory).entries()] == ["/k/group"]


def test_a_controller_is_taken_back(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    JournalledFiles(memory, journal_of(path, memory)).add_controller("/k/a", "cpu")
    assert memory.files["/k/a"] == "+cpu"
    assert journal_of(path, memory).restore() == []
    assert memory.files["/k/a"] == "-cpu"


@pytest.mark.parametrize(
    "rubbish",
    [b"\x00\x00\xff\xfe", b"7", b"[]", b'"text"', b"null", b'{"boot": "boot-1"}', b'{"boot": "boot-1", "kind'],
)
def test_rubbish_is_no_entry(rubbish: bytes, tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    path.write_bytes(rubbish)
    work(JournalledFiles(memory, journal_of(path, memory)))
    assert journal_of(path, memory).restore() == []
    assert memory.state() == (OLD, set())


def test_an_unknown_kind_is_told_and_kept(tmp_path: Path) -> None:
    path, memory = tmp_path / "journal", Memory()
    journal = journal_of(path, memory)
    journal.record("qdisc", "eth0")
    JournalledFiles(memory, journal).write("/k/a", "5")
    assert journal_of(path, memory).restore() == ["eth0: nothing here knows how to undo 'qdisc'"]
    assert memory.files["/k/a"] == "1\n"
    assert [entry["kind"] for entry in journal_of(path, memory).entries()] == ["qdisc"]


def test_no_knob_is_touched_without_an_entry(tmp_path: Path) -> None:
    """A journal that cannot be written, here because a file is where its directory belongs."""
    memory = Memory()
    (tmp_path / "file").write_text("")
    files = JournalledFiles(memory, journal_of(tmp_path / "journal", memory))
    files.write("/k/a", "5")
    (tmp_path / "journal").unlink()
    (tmp_path / "journal").mkdir()
    memory.before = lambda: pytest.fail("a change")
    with pytest.raises(KnobRefused, match="journal"):
        files.write("/k/b", "5")
    with pytest.raises(KnobRefused, match="journal"):
        files.make("/k/group")
    with pytest.raises(KnobRefused, match="journal"):
        files.add_controller("/k/b", "cpu")
    with pytest.raises(KnobRefused, match="journal"):
        journal_of(tmp_path / "journal", memory)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_refuses_the_knob(tmp_path: Path) -> None:
    memory = Memory()
    journal = journal_of(tmp_path / "journal", memory)
    (tmp_path / "journal").symlink_to("/dev/full")
    memory.before = lambda: pytest.fail("a change")
    with pytest.raises(KnobRefused, match="No space left on device"):
        JournalledFiles(memory, journal).write("/k/a", "5")


def test_journals_side_by_side_do_not_mix(tmp_path: Path) -> None:
    memory = Memory(refused={"/k/a", "/k/b"})
    for name, knob in (("guard.one", "/k/a"), ("guard.two", "/k/b")):
        journal_of(tmp_path / name, memory).record("file", knob, old="0")
        assert journal_of(tmp_path / name, memory).restore() != []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["guard.one", "guard.two"]
    assert journal_of(tmp_path / "guard.one", memory).entries()[0]["knob"] == "/k/a"


def test_the_identity_of_a_boot() -> None:
    assert boot_id(Memory({"/proc/sys/kernel/random/boot_id": "abc\n"})) == "abc"
