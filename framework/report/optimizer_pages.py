"""A page for each optimizer, made from its class; ``python -m framework.report.optimizer_pages`` writes them.

A test fails where a page is missing or differs from the class.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from optimizer.base import Optimizer, Option
from optimizer.registry import load_all

COMPARISON = "comparison.md"  # in the same directory, written by hand
DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "reference" / "optimizers"

CAPABILITIES = {
    "needs_budget": "needs to know the number of suggestions before it begins",
    "learns": "told values change what it suggests",
    "batch": "several asks before a tell give different, useful suggestions",
    "uses_noise": "weighs values by their standard errors",
    "uses_failures": "trials without a value change what it suggests",
    "uses_simulator_prior": "learns from the twin (`--prior twin`) and from other applications (`--transfer`)",
    "uses_costs": "learns from what each service computed for a request",
    "uses_priors": "looks more where the traces say that the time goes",
    "handles_constraints": "learns what keeps measured limits",
    "handles_objectives": "looks for the Pareto set of several objectives",
    "one_shot": "solves at once and ends",
    "places": "places services on CPU sets, and takes no other space",
}


def page(kind: type[Optimizer]) -> str:
    """Write an optimizer's page as Markdown: summary, when to use it, budget, options, capabilities, source."""
    can = [f"- {text}" for name, text in CAPABILITIES.items() if getattr(kind, name)]
    parts = [
        f"# {kind.name}",
        f"{kind.summary[0].upper()}{kind.summary[1:]}.",
        inspect.getdoc(kind) or "",
        f"**When:** {kind.suits}." if kind.suits else "",
        f"**Budget:** {kind.budgeting}." if kind.budgeting else "",
        _options(kind),
        "\n".join(["**What it can do**", "", *can]) if can else "",
        f"**Source:** {kind.source}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _options(kind: type[Optimizer]) -> str:
    if not kind.options_known:
        return "It has no options."
    rows = [
        f"| `{name}` | `{option.default}` | {_allowed(option)} | {option.description} |"
        for name, option in kind.options_known.items()
    ]
    return "\n".join(["| option | default | allowed | what it does |", "|---|---|---|---|", *rows])


def _allowed(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    return "" if option.low is None else f"{option.low:g} to {option.high:g}"


def pages() -> dict[str, str]:
    """Return file name -> text, for the built-in optimizers and those of other packages."""
    kinds = load_all().working
    listed = [f"| [{name}]({name}.md) | {kind.summary} | {kind.suits} |" for name, kind in kinds.items()]
    shown = "On which problems `tailor` was shown to be better than others, and where not: [comparison](comparison.md)."
    index = ["# Optimizers", "", shown, "", "| name | what | when |", "|---|---|---|", *listed]
    return {f"{name}.md": page(kind) for name, kind in kinds.items()} | {"README.md": "\n".join(index) + "\n"}


def write(directory: Path = DIRECTORY) -> None:
    """Write all pages to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    write()
