"""Generations of server processors: how they are told apart by what a kernel shows of them, and by their names.

Sources: the Linux kernel's arch/x86/include/asm/intel-family.h (Intel's models, and steppings that have names of their
own) and arch/x86/kernel/cpu/amd.c (AMD's families and models of each Zen); Arm's numbers of Neoverse cores (MIDR_EL1);
the makers' rules for model names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

INTEL, AMD, ARM = "GenuineIntel", "AuthenticAMD", "ARM"
_FEATURES = re.compile(r"\((?:r|tm)\)|[®™,]")
_NOISE = re.compile(r"\b(?:intel|amd|processor|cpu|platinum|gold|silver|bronze|64-bit|multi-core|\d+-core)\b")
_REST = re.compile(r"\s(?:@|w/|with|dell sku).*")
_GLUED = re.compile(r"(?<=\d)(l)?v(?=\d\b)")  # E5-2660V2, E3-1265LV3


@dataclass(frozen=True, slots=True)
class Generation:
    """Processors of one design.  ``models``, ``steppings``: from the first to the last; of Arm's cores the part number.

    ``family``: of Arm's cores the implementer.  ``named``: pattern of their names in short form (``short_name``).
    """

    name: str
    vendor: str
    family: int
    models: tuple[int, int]
    named: str
    steppings: tuple[int, int] = (0, 255)


GENERATIONS: tuple[Generation, ...] = (
    Generation("Haswell", INTEL, 6, (63, 63), r"xeon e[57]-\S+ v3"),
    Generation("Haswell client", INTEL, 6, (60, 60), r"xeon e3-\S+ v3"),
    Generation("Broadwell", INTEL, 6, (79, 79), r"xeon e[57]-\S+ v4"),
    Generation("Skylake client", INTEL, 6, (94, 94), r"xeon e3-\S+ v5"),
    Generation("Kaby Lake", INTEL, 6, (158, 158), r"xeon e3-\S+ v6", (0, 9)),
    Generation("Coffee Lake", INTEL, 6, (158, 158), r"xeon e-2[12]\d\d\w*", (10, 13)),
    Generation("Rocket Lake", INTEL, 6, (167, 167), r"xeon e-23\d\d\w*"),
    Generation("Raptor Lake", INTEL, 6, (183, 183), r"xeon (?:e-24\d\d\w*|63\d\dp)"),
    Generation("Ice Lake D", INTEL, 6, (108, 108), r"xeon d-[12]7\d\d\w*"),
    Generation("Sierra Forest", INTEL, 6, (175, 175), r"xeon 6[79]\d\de"),
    Generation("Granite Rapids", INTEL, 6, (173, 173), r"xeon 6[579]\d\dp(?:-[bc])?"),
    Generation("Cooper Lake", INTEL, 6, (85, 85), r"xeon \d3\d\dhl?", (10, 11)),
    Generation("Skylake", INTEL, 6, (85, 85), r"xeon [3-8]1\d\d\w*", (0, 4)),
    Generation("Cascade Lake", INTEL, 6, (85, 85), r"xeon [3-9]2\d\d\w*", (5, 7)),
    Generation("Ice Lake", INTEL, 6, (106, 106), r"xeon [4-8]3\d\d\w*"),
    Generation("Sapphire Rapids", INTEL, 6, (143, 143), r"xeon [3-9]4\d\d\w*\+?"),
    Generation("Emerald Rapids", INTEL, 6, (207, 207), r"xeon [3-8]5\d\d\w*\+?"),
    Generation("Naples", AMD, 23, (0, 7), r"epyc 7\w\d1\w*"),
    Generation("Rome", AMD, 23, (48, 63), r"epyc 7\w\d2\w*"),
    Generation("Milan", AMD, 25, (0, 15), r"epyc 7\w\d3\w*"),
    Generation("Bergamo and Siena", AMD, 25, (160, 175), r"epyc (?:97|8\d)\d4\w*"),
    Generation("Genoa", AMD, 25, (16, 31), r"epyc 9\w\d4\w*"),
    Generation("Raphael", AMD, 25, (96, 111), r"epyc 4\d\d4\w*"),
    Generation("Turin Dense", AMD, 26, (16, 31), r"epyc 9(?:[6789]45|825|965)\w*"),
    Generation("Turin", AMD, 26, (0, 15), r"epyc 9\w\d5\w*"),
    Generation("Grado", AMD, 26, (64, 79), r"epyc 4\d\d5\w*"),
    Generation("Neoverse N1", ARM, 0x41, (0xD0C, 0xD0C), r"ampere altra.*"),
    Generation("Neoverse V2", ARM, 0x41, (0xD4F, 0xD4F), r"grace.*"),
)
"""By name the first that fits counts."""


def short_name(name: str) -> str:
    """Return a processor's name in small letters, without maker, grade, core count and clock: "xeon 8380", "epyc 7763".

    Empty where nothing is left that tells processors apart, as on virtual machines that hide it.
    """
    text = _REST.sub("", " " + _FEATURES.sub(" ", name.casefold()))
    text = _NOISE.sub(" ", text.replace("xeon-d", "xeon d-").replace(" e e-", " e-"))
    text = _GLUED.sub(lambda match: f"{match[1] or ''} v", text)
    short = re.sub(r"^e(?=[357]-)", "xeon e", " ".join(text.replace("d- ", "d-").split()))
    return short if re.search(r"\d|grace", short) else ""


def by_name(name: str) -> Generation | None:
    """Return the generation of a processor's short name; None where no rule fits."""
    return _first(generation for generation in GENERATIONS if re.fullmatch(generation.named, name))


def by_numbers(vendor: str, family: int, model: int, stepping: int = 0) -> Generation | None:
    """Return the generation of what the kernel shows; None for one that is not known here."""
    return _first(
        generation
        for generation in GENERATIONS
        if (generation.vendor, generation.family) == (vendor, family)
        and generation.models[0] <= model <= generation.models[1]
        and generation.steppings[0] <= stepping <= generation.steppings[1]
    )


def _first(generations: Iterable[Generation]) -> Generation | None:
    return next(iter(generations), None)
