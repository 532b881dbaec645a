"""The recorded studies that optimizers are raced on: what the experiments on the social network measured, pooled.

A study's values are taken over its own default's, because the machine's speed differed from one to the next.  Trials
without a value are left out: it was the machine that disturbed them.

    .venv/bin/python -m experiments.bench.optimizers.recorded     # writes recorded/*.json from the experiments' results
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.model.documents import encode
from optimizer.benchmark.replay import Result
from optimizer.space import SearchSpace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
EXPERIMENTS = ROOT / "experiments"
APPLICATION = ROOT / "apps" / "social-network"
RECORDS: Mapping[str, Sequence[str]] = {
    "social-network": (
        *(f"first-studies/results/{name}-seed1.json" for name in ("dds", "bo-gp", "random")),
        *(f"figure3/results/{name}.json" for name in ("dds-all", "bo-gp-all", "dds-soft", "bo-gp-soft")),
    ),
    "social-network-critical-path": (
        *(
            f"figure4/results/{name}.json"
            for name in ("dds", "bo-gp", "pso", "serial", "tailor", "ga", "sa", "tpe", "bo-gbrt", "bo-rf", "dds-grow")
        ),
        "figure4/results/random.json",
        "hundred/results/dds-100.json",
    ),
}


def lines() -> list[str]:
    """The problems of the records that are there, from the root of the repository."""
    return [f"replay {path.relative_to(ROOT)}" for path in sorted((HERE / "recorded").glob("*.json"))]


def record(name: str) -> dict[str, Any]:
    """The studies of ``RECORDS[name]`` as one recorded study."""
    studies = [json.loads((EXPERIMENTS / path).read_text()) for path in RECORDS[name]]
    machine = studies[0]["machine"]
    types = resolved(load_service_types(), cores=machine["cores"], memory_mib=machine["memory_mib"])
    space = search_space(
        load_application(APPLICATION), types, cores=machine["cores"], memory_mib=machine["memory_mib"]
    )  # fmt: skip
    cuts = [study["reduction"]["kept"] for study in studies if study.get("reduction")]
    if cuts:
        space = space.subset(parameter.name for parameter in space.parameters if parameter.group in cuts[0])
    results = [result for study in studies for result in _results(study, space)]
    return {
        "kind": "recorded-study",
        "version": 1,
        "study": name,
        "space": space.to_dict(),
        "results": encode(results),
    }


def _results(study: Mapping[str, Any], space: SearchSpace) -> Iterator[Result]:
    trials = [
        trial for trial in study["trials_detail"] if trial["told_value"] and trial["purpose"] in ("default", "search")
    ]
    default = statistics.fmean(math.log(trial["told_value"]) for trial in trials if trial["purpose"] == "default")
    for trial in trials:
        values = {**space.default(), **trial["configuration"]}
        yield Result(values, math.exp(math.log(trial["told_value"]) - default), trial["standard_error"])


def main() -> None:
    (HERE / "recorded").mkdir(exist_ok=True)
    for name in RECORDS:
        (HERE / "recorded" / f"{name}.json").write_text(json.dumps(record(name)) + "\n")


if __name__ == "__main__":
    main()
