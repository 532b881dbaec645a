"""Cuts 12 queries of 200 bases out of genes, and changes each 20th base of them: query.py SEED FASTA."""

import random
import sys
from pathlib import Path

QUERIES, LENGTH, EVERY = 12, 200, 20

draw = random.Random(int(sys.argv[1]))
records = Path(sys.argv[2]).read_text().split(">")[1:]
genes = [gene for record in records if len(gene := "".join(record.splitlines()[1:])) >= LENGTH]
for number, gene in enumerate(draw.sample(genes, QUERIES), 1):
    start = draw.randrange(len(gene) - LENGTH + 1)
    bases = list(gene[start : start + LENGTH].upper())
    for place in range(draw.randrange(EVERY), LENGTH, EVERY):
        bases[place] = draw.choice("ACGT".replace(bases[place], ""))
    print(f">query-{number}\n{''.join(bases)}")
