"""An SVG of the machine and its services: boxes of sockets, in them memory nodes, caches and cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from framework.model.cpus import read_cpus, write_cpus
from framework.model.topology import Topology
from framework.report.figure import BRIGHT

CPU_WIDTH, CPU_HEIGHT, PAD, LINE = 46, 30, 8, 18
PER_ROW = 8  # cores of a cache side by side
MOST_WIDTH = 700  # a cache that would begin further right goes to a new row
PLAIN = "#bbbbbb"


def machine_picture(topology: Topology, placement: Mapping[str, str], title: str) -> str:
    """Draw the machine with a colour for each CPU set and its services.  ``placement``: service -> CPUs or "all"."""
    domains = sorted({cpus for cpus in placement.values() if cpus != "all"}, key=read_cpus)
    colour = {cpu: BRIGHT[i % len(BRIGHT)] for i, domain in enumerate(domains) for cpu in read_cpus(domain)}
    parts: list[str] = []
    width, y = 0.0, 2.0 * LINE
    for name, cpus in topology.groups("package").items():
        right, bottom = _nested(parts, topology.only(cpus), name.replace("package", "socket"), PAD, y, colour)
        width, y = max(width, right), bottom + PAD
    y += LINE
    for index, domain in enumerate([*domains, "all"]):
        services = sorted(name for name, cpus in placement.items() if cpus == domain)
        if not services:
            continue
        fill = BRIGHT[index % len(BRIGHT)] if domain != "all" else PLAIN
        label = f"CPU {domain}" if domain != "all" else "all CPUs"
        parts.append(f'<rect x="{PAD}" y="{y - 11}" width="12" height="12" fill="{fill}"/>')
        parts.append(_text(PAD + 18, y, f"{label}:", bold=True))
        for row in _rows(services):
            y += LINE
            parts.append(_text(PAD + 18, y, row))
            width = max(width, PAD + 18 + 7.2 * len(row))
        y += 1.4 * LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + PAD:.0f}" height="{y:.0f}" role="img"'
    return (
        f'{head} font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="white"/>{_text(PAD, LINE, title, bold=True)}{"".join(parts)}</svg>\n'
    )


def _nested(
    parts: list[str], package: Topology, name: str, x: float, y: float, colour: Mapping[int, str]
) -> tuple[float, float]:
    """Draw a socket with its memory nodes, last-level caches and cores; return its right and bottom edges."""
    at = len(parts)
    right, bottom = x, y + LINE + PAD
    for node, cpus in package.groups("node").items():
        inside = len(parts)
        node_right, node_bottom = x + PAD, bottom + LINE
        left, above = x + 2 * PAD, node_bottom + PAD
        for cache, shared in package.only(cpus).groups("cache").items():
            if left > MOST_WIDTH:
                left, above = x + 2 * PAD, node_bottom + PAD
            edge, cache_bottom = _cache(parts, package.only(shared), cache, left, above, colour)
            node_right, node_bottom = max(node_right, edge), max(node_bottom, cache_bottom)
            left = edge + PAD
        parts[inside:inside] = _box(x + PAD, bottom, node_right + PAD, node_bottom + PAD, f"memory {node}")
        right, bottom = max(right, node_right + PAD), node_bottom + 2 * PAD
    parts[at:at] = _box(x, y, right + PAD, bottom, name)
    return right + PAD, bottom


def _cache(
    parts: list[str], shared: Topology, name: str, x: float, y: float, colour: Mapping[int, str]
) -> tuple[float, float]:
    cores = list(shared.groups("core").values())
    threads = max(len(cpus) for cpus in cores)
    rows = -(-len(cores) // PER_ROW)
    size = max((cache.size_bytes for cache in shared.caches if cache.kind != "i"), default=0)
    label = f"{name.split()[0]} {size / 2**20:g} MiB" if size else name
    right = x + PAD + min(len(cores), PER_ROW) * (CPU_WIDTH + 4) + PAD
    bottom = y + LINE + rows * (threads * CPU_HEIGHT + 6) + PAD
    parts += _box(x, y, right, bottom, label)
    for index, cpus in enumerate(cores):
        left = x + PAD + (index % PER_ROW) * (CPU_WIDTH + 4)
        top = y + LINE + (index // PER_ROW) * (threads * CPU_HEIGHT + 6) + 4
        for thread, cpu in enumerate(cpus):
            fill = colour.get(cpu, PLAIN)
            above = top + thread * CPU_HEIGHT
            parts.append(
                f'<rect x="{left:g}" y="{above:g}" width="{CPU_WIDTH}" height="{CPU_HEIGHT}" fill="{fill}" '
                f'stroke="white"/><text x="{left + CPU_WIDTH / 2:g}" y="{above + 19:g}" text-anchor="middle" '
                f'fill="white">{cpu}</text>'
            )
    return right, bottom


def _box(left: float, top: float, right: float, bottom: float, label: str) -> list[str]:
    frame = f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="4"'
    return [f'{frame} fill="none" stroke="#888888"/>', _text(left + 6, top + 14, label)]


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" fill="#222222"{weight}>{escape(text)}</text>'


def _rows(names: Sequence[str], most: int = 90) -> list[str]:
    """Join names by commas into lines of at most ``most`` characters."""
    rows = [""]
    for name in names:
        addition = f"{', ' if rows[-1] else ''}{name}"
        if rows[-1] and len(rows[-1]) + len(addition) > most:
            rows.append(name)
        else:
            rows[-1] += addition
    return rows


def described(topology: Topology) -> str:
    """Describe the machine in one line."""
    counts = {by: len(topology.groups(by)) for by in ("package", "node", "cache", "core")}
    words = {"package": "socket", "node": "memory node", "cache": "last-level cache", "core": "core"}
    parts = [f"{count} {words[by]}{'s' if count > 1 else ''}" for by, count in counts.items()]
    return f"CPU {write_cpus(topology.numbers)}: {', '.join(parts)}"
