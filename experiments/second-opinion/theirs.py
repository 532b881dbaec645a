"""Plans of Netflix' service-capacity-modeling for the five needs of ``run``; runs in an environment of its own.

Reads a JSON list of needs on standard input, and writes their plans and the machine types that they use on standard
output.  Only that library is imported here.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from service_capacity_modeling.capacity_planner import planner
from service_capacity_modeling.interface import (
    CapacityDesires,
    DataShape,
    QueryPattern,
    certain_float,
    certain_int,
    default_reference_shape,
)

REGION = "us-east-1"
FAMILIES = ["m5d", "r5d", "c5d", "m6id", "r6id", "c6id"]  # with disks: its cache refuses others
GIB = 2**30


def desires(need: dict[str, Any]) -> CapacityDesires:
    """Return a need in the library's terms; CPU time is that of one vCPU of its reference shape."""
    pattern = QueryPattern(
        estimated_read_per_second=certain_int(need["reads"]),
        estimated_write_per_second=certain_int(need["writes"]),
        estimated_mean_read_latency_ms=certain_float(1e3 * need["read_s"]),
        estimated_mean_write_latency_ms=certain_float(1e3 * need["write_s"]),
        estimated_mean_read_size_bytes=certain_int(need["record"]),
        estimated_mean_write_size_bytes=certain_int(need["record"]),
    )
    shape = DataShape(
        estimated_state_size_gib=certain_float(need["stored"] / GIB),
        estimated_state_item_count=certain_int(max(1, int(need["stored"] / need["record"]))),
        estimated_working_set_percent=certain_float(1.0),  # all of it in memory
        reserved_instance_app_mem_gib=0,
        reserved_instance_system_mem_gib=0,
    )
    return CapacityDesires(service_tier=1, query_pattern=pattern, data_shape=shape)


def planned(need: dict[str, Any]) -> list[dict[str, Any]]:
    model = "org.netflix.stateless-java" if need["stateless"] else "org.netflix.evcache"
    arguments = {"failover": False} if need["stateless"] else {"copies_per_region": need["copies"]}
    plans = planner.plan_certain(
        model_name=model, region=REGION, desires=desires(need), instance_families=FAMILIES, num_results=200,
        max_results_per_family=50, extra_model_arguments=arguments,
    )  # fmt: skip
    rows = []
    for plan in plans:
        clusters = plan.candidate_clusters
        groups = clusters.zonal if clusters.zonal else clusters.regional
        requirement = (plan.requirements.zonal or plan.requirements.regional)[0]
        rows.append(
            {
                "machine": groups[0].instance.name,
                "nodes": sum(group.count for group in groups),
                "cores": float(requirement.cpu_cores.mid),
                "memory_gib": float(requirement.mem_gib.mid),
                "network_mbps": float(requirement.network_mbps.mid),
                "annual_cost": float(sum(group.annual_cost for group in groups)),
            }
        )
    return [row for number, row in enumerate(rows) if row not in rows[:number]]  # one for each of its drives


def machines() -> list[dict[str, Any]]:
    speed = default_reference_shape.cpu_ghz * default_reference_shape.cpu_ipc_scale
    hardware = planner.hardware_shapes.region(REGION)
    return [
        {
            "name": name,
            "vcpus": shape.cpu,
            "ram_gib": shape.ram_gib,
            "network_mbps": shape.net_mbps,
            "speed": shape.cpu_ghz * shape.cpu_ipc_scale / speed,
            "annual_cost": float(shape.annual_cost),
        }
        for name, shape in sorted(hardware.instances.items())
        if shape.family in FAMILIES and shape.annual_cost
    ]


def main() -> None:
    needs = json.load(sys.stdin)
    answer = {
        "library": f"service-capacity-modeling=={version('service-capacity-modeling')}",
        "region": REGION,
        "machines": machines(),
        "plans": {need["name"]: planned(need) for need in needs},
    }
    json.dump(answer, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
