"""Programs for the kernel's eBPF machine without a compiler: bpf(2) by ctypes, instructions assembled here.

Two programs of type cgroup_skb are needed, both short: one counts the bytes that a control group sends or receives, one
gives what it sends a priority, which chooses the class of an HTB qdisc.  They are attached through BPF links (Linux 5.7
and later): a link lives as long as its file descriptor, so whatever ends this process, SIGKILL included, detaches them.

Sources: include/uapi/linux/bpf.h for numbers and structures; kernel documentation, bpf/standardization/instruction-set.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from framework.errors import KnobRefused

SYSCALLS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, LINK_CREATE = 0, 1, 5, 28
ARRAY, CGROUP_SKB = 2, 8
INGRESS, EGRESS = 0, 1
LOG_BYTES = 65536
LICENSE = b"Apache-2.0\0"

# Offsets of struct __sk_buff, in bytes.
LENGTH, PROTOCOL, PRIORITY, INTERFACE, SEGMENTS = 0, 16, 32, 40, 164
LOOKUP_HELPER, LOAD_BYTES_HELPER = 1, 26
IPV4 = int.from_bytes((0x0800).to_bytes(2, "big"), sys.byteorder)  # as the packet has it
IPV4_DESTINATION = 16  # offset in the header
LOOPBACK = 1  # the index of lo in every network namespace

ETHERNET_HEADER = 14
SEGMENT_HEADERS = (
    ETHERNET_HEADER + 20 + 32
)  # IPv4, and TCP with time stamps: what every further segment of a packet has
FRAME = 10  # register: the stack's end

Jump = tuple[int, int, int, str]
"""Opcode, register, constant, label."""
Instruction = bytes | Jump | str
"""Encoded; a jump whose distance is not known yet; the label of the next instruction."""


def _encode(code: int, target: int = 0, source: int = 0, offset: int = 0, constant: int = 0) -> bytes:
    """Encode one instruction of 8 bytes.  Registers 0 to 10; ``constant`` of 32 bits, signed or not."""
    registers = target | source << 4 if sys.byteorder == "little" else target << 4 | source
    signed = constant - 2**32 if constant >= 2**31 else constant
    return struct.pack("=BBhi", code, registers, offset, signed)


def copy(target: int, source: int) -> bytes:
    return _encode(0xBF, target, source)


def set_to(target: int, constant: int) -> bytes:
    return _encode(0xB7, target, constant=constant)


def add(target: int, constant: int) -> bytes:
    return _encode(0x07, target, constant=constant)


def add_register(target: int, source: int) -> bytes:
    return _encode(0x0F, target, source)


def multiply(target: int, constant: int) -> bytes:
    return _encode(0x27, target, constant=constant)


def mask(target: int, constant: int) -> bytes:
    """Keep those of the lower 32 bits that are set in ``constant``; the upper ones become 0."""
    return _encode(0x54, target, constant=constant)


def load(target: int, address: int, offset: int) -> bytes:
    """Load 32 bits from the address in a register."""
    return _encode(0x61, target, address, offset)


def store(address: int, offset: int, source: int) -> bytes:
    """Store 32 bits."""
    return _encode(0x63, address, source, offset)


def store_constant(address: int, offset: int, constant: int) -> bytes:
    return _encode(0x62, address, 0, offset, constant)


def add_atomically(address: int, source: int) -> bytes:
    """Add a register to the 64 bits at an address, whichever other CPU does so too."""
    return _encode(0xDB, address, source)


def load_map(target: int, descriptor: int) -> bytes:
    """Load the address of a map: one instruction of 16 bytes."""
    return _encode(0x18, target, 1, 0, descriptor) + _encode(0)


def call(helper: int) -> bytes:
    return _encode(0x85, constant=helper)


def leave() -> bytes:
    return _encode(0x95)


def jump_if_equal(register: int, constant: int, label: str) -> Jump:
    """Compare the lower 32 bits."""
    return 0x16, register, constant, label


def jump_unless_equal(register: int, constant: int, label: str) -> Jump:
    """Compare the lower 32 bits."""
    return 0x56, register, constant, label


def jump_if_null(register: int, label: str) -> Jump:
    """Compare all 64 bits, which is how the verifier sees that an address is checked."""
    return 0x15, register, 0, label


def jump_if_at_most(register: int, constant: int, label: str) -> Jump:
    return 0xB5, register, constant, label


def assemble(instructions: Sequence[Instruction]) -> bytes:
    """Encode a program: labels become distances, counted in 8 bytes from the instruction after the jump."""
    labels, place = dict[str, int](), 0
    for instruction in instructions:
        match instruction:
            case str():
                labels[instruction] = place
            case bytes():
                place += len(instruction) // 8
            case _:
                place += 1
    code = b""
    for instruction in instructions:
        match instruction:
            case str():
                continue
            case bytes():
                code += instruction
            case opcode, register, constant, label:
                code += _encode(opcode, register, 0, labels[label] - len(code) // 8 - 1, constant)
    return code


@dataclass(frozen=True, slots=True)
class Network:
    """An IPv4 network: its address and mask as a 32-bit load of a packet's own bytes gives them."""

    address: int
    mask: int


def counting_program(counter: int, interface: int | None = None, near: Sequence[Network] = ()) -> bytes:
    """Return a program that adds each packet's bytes on the wire to the first element of a map.

    ``interface``: index of the only one that counts; None: all but the loopback.  ``near``: IPv4 networks whose packets
    do not count when they are sent there.  A large packet that the network card or the kernel cuts into segments later
    counts with the headers that these will have (as HTB counts it); preamble and check sum do not count.
    """
    chosen: Jump = jump_if_equal(2, LOOPBACK, "out") if interface is None else jump_unless_equal(2, interface, "out")
    code: list[Instruction] = [copy(6, 1), load(2, 6, INTERFACE), chosen]
    if near:
        code += [load(2, 6, PROTOCOL), jump_unless_equal(2, IPV4, "count")]
        code += [copy(1, 6), set_to(2, IPV4_DESTINATION), copy(3, FRAME), add(3, -8), set_to(4, 4)]
        code += [call(LOAD_BYTES_HELPER), jump_unless_equal(0, 0, "count"), load(2, FRAME, -8)]
    for network in near:
        code += [copy(3, 2), mask(3, network.mask), jump_if_equal(3, network.address, "out")]
    code += ["count", load(7, 6, LENGTH), add(7, ETHERNET_HEADER), load(8, 6, SEGMENTS), jump_if_at_most(8, 1, "add")]
    code += [add(8, -1), multiply(8, SEGMENT_HEADERS), add_register(7, 8)]
    code += ["add", store_constant(FRAME, -4, 0), load_map(1, counter), copy(2, FRAME), add(2, -4)]
    code += [call(LOOKUP_HELPER), jump_if_null(0, "out"), add_atomically(0, 7)]
    code += ["out", set_to(0, 1), leave()]  # 1: the packet may pass
    return assemble(code)


def priority_program(priority: int) -> bytes:
    """Return a program that gives each packet a priority, such as the handle of a class of HTB."""
    return assemble([set_to(2, priority), store(1, PRIORITY, 2), set_to(0, 1), leave()])


class Counter:
    """Bytes that a control group sends (or receives), counted from its making to ``close``.

    ``group``: its directory in the tree of cgroup v2.  Groups below it count too.  ``interface`` and ``near``: see
    ``counting_program``.  Raises KnobRefused.
    """

    def __init__(
        self, group: Path, interface: int | None = None, near: Sequence[Network] = (), direction: int = EGRESS
    ) -> None:
        with ExitStack() as opened:
            self._map = _create_counter(str(group))
            opened.callback(os.close, self._map)
            program = counting_program(self._map, interface, near if direction == EGRESS else ())
            opened.callback(os.close, attach(group, program, direction))
            self._opened = opened.pop_all()

    def read(self) -> int:
        """Return the bytes so far.  Raises KnobRefused."""
        key, value = ctypes.c_uint32(0), ctypes.c_uint64(0)
        attributes = struct.pack("=IIQQQ", self._map, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
        _bpf("BPF map", MAP_LOOKUP, attributes)
        return value.value

    def close(self) -> None:
        self._opened.close()


class Priority:
    """Gives what a control group sends a priority, from its making to ``close``.  Raises KnobRefused."""

    def __init__(self, group: Path, priority: int) -> None:
        self._link: int | None = attach(group, priority_program(priority), EGRESS)

    def close(self) -> None:
        if self._link is not None:
            os.close(self._link)
            self._link = None


def missing() -> str:
    """Say why such programs do not run here; empty where they do."""
    if platform.machine() not in SYSCALLS:
        return f"the number of the system call bpf is not known for {platform.machine()}"
    try:
        counter = _create_counter("BPF map")
        try:
            os.close(load_program("BPF", counting_program(counter), EGRESS))
        finally:
            os.close(counter)
    except KnobRefused as error:
        return f"this kernel runs no eBPF programs for us ({error.reason.splitlines()[0]})"
    return ""


def attach(group: Path, code: bytes, direction: int) -> int:
    """Load a program and attach it to a group beside those of others; returns the link's descriptor.

    Raises KnobRefused.
    """
    program = load_program(str(group), code, direction)
    try:
        target = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _bpf(f"BPF link of {group}", LINK_CREATE, struct.pack("=IIII", program, target, direction, 0))
        finally:
            os.close(target)
    except OSError as error:
        raise KnobRefused(str(group), error.strerror or str(error)) from error
    finally:
        os.close(program)  # the link has it now


def load_program(knob: str, code: bytes, direction: int) -> int:
    """Give a program to the kernel; returns its descriptor.  Raises KnobRefused with what the verifier says."""
    try:
        return _load(knob, code, direction, None)
    except KnobRefused as error:
        log = ctypes.create_string_buffer(LOG_BYTES)
        try:
            return _load(knob, code, direction, log)  # again, as the log costs time
        except KnobRefused:
            said = log.value.decode(errors="replace").strip()
            raise KnobRefused(knob, f"{error.reason}\n{said}" if said else error.reason) from error


def _load(knob: str, code: bytes, direction: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
    instructions, license_text = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(LICENSE)
    attributes = struct.pack(
        "=IIQQIIQII16sII", CGROUP_SKB, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(license_text),
        1 if log else 0, LOG_BYTES if log else 0, ctypes.addressof(log) if log else 0, 0, 0, b"tailor", 0, direction,
    )  # fmt: skip
    return _bpf(f"BPF program for {knob}", PROG_LOAD, attributes)


def _create_counter(knob: str) -> int:
    """Make a map with one element of 64 bits; returns its descriptor."""
    return _bpf(f"BPF map for {knob}", MAP_CREATE, struct.pack("=IIIIIII16s", ARRAY, 4, 8, 1, 0, 0, 0, b"tailor"))


def _bpf(knob: str, command: int, attributes: bytes) -> int:
    """Call bpf(2).  Raises KnobRefused."""
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise KnobRefused(knob, f"the number of the system call bpf is not known for {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = _LIBC.syscall(number, command, buffer, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        hint = " (BPF links need Linux 5.7)" if command == LINK_CREATE and code == errno.EINVAL else ""
        raise KnobRefused(knob, os.strerror(code) + hint)
    return int(result)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
