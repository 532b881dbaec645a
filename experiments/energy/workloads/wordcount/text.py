"""Writes a text of 64 files of 1 MiB each, whose words follow a Zipf law: text.py DICTIONARY DIRECTORY."""

import random
import sys
from itertools import accumulate
from pathlib import Path

FILES, BYTES = 64, 2**20
WORDS = 200_000  # of a file, more than fit
EXPONENT = 1.0  # of the law: Zipf's own for English

dictionary, directory = map(Path, sys.argv[1:])
draw = random.Random(1949)
words = dictionary.read_text().split()
draw.shuffle(words)  # else the frequent words are those that begin with A
shares = list(accumulate(1 / rank**EXPONENT for rank in range(1, len(words) + 1)))
directory.mkdir()
for number in range(FILES):
    text = " ".join(draw.choices(words, cum_weights=shares, k=WORDS)).encode()
    if len(text) < BYTES:
        raise SystemExit(f"{len(text)} bytes are too few")
    (directory / f"{number:02}").write_bytes(text[: BYTES - 1] + b"\n")
