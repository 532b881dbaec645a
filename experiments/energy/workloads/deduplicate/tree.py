"""Makes 24 files of 4 MiB of 32 different parts of 1 MiB, each three times: tree.py SEED DIRECTORY."""

import random
import sys
from pathlib import Path

DIFFERENT, TIMES, PART, PARTS_OF_A_FILE = 32, 3, 2**20, 4

draw = random.Random(int(sys.argv[1]))
directory = Path(sys.argv[2])
parts = [draw.randbytes(PART) for _ in range(DIFFERENT)]
order = [number for number in range(DIFFERENT) for _ in range(TIMES)]
random.Random(3).shuffle(order)  # as it is with every seed: what follows what decides how much borg finds
directory.mkdir()
for start in range(0, len(order), PARTS_OF_A_FILE):
    content = b"".join(parts[number] for number in order[start : start + PARTS_OF_A_FILE])
    (directory / f"{start // PARTS_OF_A_FILE:02}").write_bytes(content)
