"""JSON Schemas of the kinds of file, for editors and for people; a test compares the written ones with the models.

``python -m framework.config.schemas`` writes them to docs/reference/schemas.
"""

from __future__ import annotations

import json
from pathlib import Path

from framework.config.application_file import ApplicationFile
from framework.config.bottlenecks_file import BottlenecksFile
from framework.config.checked import Strict
from framework.config.configuration_file import ConfigurationFile
from framework.config.jobs_file import JobsFile
from framework.config.load_profile_file import LoadProfileFile
from framework.config.machine_catalogue import MachineCatalogueFile
from framework.config.need_file import NeedFile
from framework.config.node_file import NodeFile
from framework.config.results_file import ResultsFile
from framework.config.service_type_file import ServiceTypeFile
from framework.config.twin_file import TwinFile
from framework.config.workload_file import WorkloadFile

KINDS: dict[str, type[Strict]] = {
    "application": ApplicationFile,
    "service-type": ServiceTypeFile,
    "workload": WorkloadFile,
    "load-profile": LoadProfileFile,
    "configuration": ConfigurationFile,
    "bottlenecks": BottlenecksFile,
    "jobs": JobsFile,
    "machine-catalogue": MachineCatalogueFile,
    "need": NeedFile,
    "node-measurement": NodeFile,
    "results": ResultsFile,
    "twin": TwinFile,
}
DIRECTORY = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


def schema_text(kind: str) -> str:
    """Return the text of the JSON Schema of a kind, version 1."""
    schema = KINDS[kind].model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"tailor:{kind}:1"}
    return json.dumps({**head, **schema}, indent=2, ensure_ascii=False) + "\n"


def write(directory: Path = DIRECTORY) -> None:
    """Write the schema of every kind to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        (directory / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    write()
