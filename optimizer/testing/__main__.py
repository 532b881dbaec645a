"""Run the kit's fixed conversation in a separate process: ``python -m optimizer.testing module:Class options``."""

from __future__ import annotations

import importlib
import json
import sys

from optimizer.base import Optimizer
from optimizer.testing.problems import Maker, script


def main(name: str, options: str) -> None:
    """Print the suggestions as JSON; ``options``: a JSON object.  Raises SystemExit where ``name`` is no Optimizer."""
    module, _, qualname = name.partition(":")
    loaded: object = importlib.import_module(module)
    for part in qualname.split("."):
        loaded = getattr(loaded, part)
    if not (isinstance(loaded, type) and issubclass(loaded, Optimizer)):
        raise SystemExit(f"{name} is not an Optimizer")
    sys.stdout.write(json.dumps(script(Maker(loaded, json.loads(options)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
