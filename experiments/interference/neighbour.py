#!/usr/bin/env python3
"""One neighbour on the CPUs that it is given: a strided walk through memory, arithmetic, or a TCP sender.

It says "ready" on standard output when it has begun.  It gives way to everything else on its CPUs (nice 19).

    neighbour.py walk MIB | spin | send HOST PORT
"""

from __future__ import annotations

import os
import socket
import sys

STEP = 64  # integers of 4 bytes, as in the thesis: 256 bytes
BLOCK = 1 << 20  # bytes of one send


def walk(mebibytes: int) -> None:
    import numpy as np

    array = np.ones(mebibytes * 2**20 // 4, np.int32)
    strided = array[::STEP]
    strided.sum()
    print("ready", flush=True)
    while True:
        strided.sum()


def spin() -> None:
    print("ready", flush=True)
    number = 1
    while True:
        number = (number * 1_103_515_245 + 12_345) & 0x7FFFFFFF


def send(host: str, port: int) -> None:
    data = bytes(BLOCK)
    with socket.create_connection((host, port)) as connection:
        print("ready", flush=True)
        while True:
            connection.sendall(data)


if __name__ == "__main__":
    os.nice(19)
    kind, *words = sys.argv[1:]
    if kind == "walk":
        walk(int(words[0]))
    elif kind == "spin":
        spin()
    else:
        send(words[0], int(words[1]))
