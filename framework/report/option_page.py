"""The reference page of the options of ``tune``; ``python -m framework.report.option_page`` writes it.

A test fails where the page differs from the declarations.
"""

from __future__ import annotations

from pathlib import Path

from framework.model import TuneRequest
from framework.model.options import STAGES, Declared, options_of

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "options.md"

HEAD = """# Options of a study

Each is declared once, in `framework/model/tune_request.py`; the flags of `tailor tune`, the body of
`POST /v1/studies`, the dashboard's form and this page are made of that. `field` is the name in a body and in an error.
Times that have a unit there (`_s`, `_ms`) are written as durations on the command line, such as `20s`, `500ms`, `30m`.
The OpenAPI description (`GET /v1/openapi.json`) has the JSON types.
"""


def page() -> str:
    """Write the page as Markdown: a table for each stage of a study."""
    parts = [HEAD.rstrip()]
    for stage, title in STAGES.items():
        rows = [_row(declared) for declared in options_of(TuneRequest).values() if declared.option.stage == stage]
        head = ["| flag | field | default | allowed | what it does |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"## {title}", "", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def _row(declared: Declared) -> str:
    option = declared.option
    text = f"{option.help}, {option.written}" if option.written else option.help
    notes = [
        f"behind `{option.within}`, as in `{declared.name}:...`" if option.within else "",
        f"of `tailor {option.command}`" if option.command != "tune" else "",
        "over HTTP: whether to use the service's own" if option.kept else "",
    ]
    flag = f"`{declared.flag}`" if declared.flag else ""
    whole = "; ".join(filter(None, [text, *notes]))
    return f"| {flag} | `{declared.name}` | {_default(declared)} | {_allowed(declared)} | {whole}. |"


def _default(declared: Declared) -> str:
    if declared.option.absent:
        return declared.option.absent
    if declared.type is bool:
        return "on" if declared.default else "off"
    if not declared.default and not isinstance(declared.default, int):
        return ""
    return f"`{declared.default:g}`" if isinstance(declared.default, int | float) else f"`{declared.default}`"


def _allowed(declared: Declared) -> str:
    option = declared.option
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    bounds, over_http = option.range(), option.range(over_http=True)
    unit = f" {option.unit}" if option.unit and bounds else ""
    return f"{bounds}{unit}" if bounds == over_http else f"{bounds}{unit} (over HTTP {over_http})"


def write(file: Path = FILE) -> None:
    """Write the page to ``file``."""
    file.write_text(page())


if __name__ == "__main__":
    write()
