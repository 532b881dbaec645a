"""The placement of least interference and communication, by constraint programming.

Source: OR-Tools' CP-SAT (an extra); the model is the usual linearisation of a quadratic assignment: for each pair of
services that cost each other something, whether they share a domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optimizer.assignment import Assignment
from optimizer.base import Option
from optimizer.libraries import library
from optimizer.solvers import PlacementSolver

SCALE = 1_000_000  # costs and weights become integers


class PlacementCPSAT(PlacementSolver):
    """One suggestion, and whether it is proved to be the best; else the bound.

    Domains of one host share its name before a dot ("node1.0", "node1.1"): calls within a host cost nothing.
    """

    name = "placement-cpsat"
    summary = "placement: interference and calls between domains, with services kept apart or pinned"
    source = "Perron & Didier, OR-Tools CP-SAT"
    suits = "to place many services, on hosts of different sizes, with wishes"
    options_known: ClassVar[Mapping[str, Option]] = {
        "call_cost": Option(0.0, "what a call between hosts costs, in units of interference", low=0.0, high=1e6),
        "seconds": Option(
            20.0, "how long it may search, in the solver's deterministic seconds", low=0.1, high=86_400.0
        ),
    }

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        model, at = self._model(problem)
        solver = library("ortools.sat.python.cp_model", "ortools").CpSolver()
        solver.parameters.num_workers = 1  # with several, which optimum is found depends on their timing
        solver.parameters.random_seed = int(self.stream(1).integers(2**31 - 1))
        solver.parameters.max_deterministic_time = float(self.options["seconds"])
        status = solver.status_name(solver.solve(model))
        if status not in ("OPTIMAL", "FEASIBLE"):
            return None
        places = np.argmax(np.array([[solver.value(one) for one in row] for row in at]), axis=1).astype(np.int64)
        value, bound = solver.objective_value / SCALE, solver.best_objective_bound / SCALE
        gap = f"the least is {bound:.4g} or more, a gap of {(value - bound) / value if value else 0:.1%}"
        return places, f"predicted cost {value:.4g}, {'proved to be the least' if status == 'OPTIMAL' else gap}"

    def _model(self, problem: Assignment) -> tuple[Any, list[list[Any]]]:
        cp = library("ortools.sat.python.cp_model", "ortools")
        model = cp.CpModel()
        services, domains = range(len(problem.services)), range(len(problem.domains))
        at = [[model.new_bool_var(f"{problem.services[s]} at {problem.domains[d]}") for d in domains] for s in services]
        for row in at:
            model.add_exactly_one(row)
        for limit in problem.limits:
            for d in domains:
                if np.isfinite(limit.bounds[d]):
                    used = sum(round(float(limit.weights[s]) * SCALE) * at[s][d] for s in services)
                    model.add(used <= int(np.floor(limit.bounds[d] * SCALE * (1 + 1e-9))))
        for s, t in np.argwhere(np.triu(problem.apart)).tolist():
            for d in domains:
                model.add(at[s][d] + at[t][d] <= 1)
        for s, d in np.argwhere(~problem.allowed).tolist():
            model.add(at[s][d] == 0)
        model.minimize(sum(self._costs(model, problem, at)))
        return model, at

    def _costs(self, model: Any, problem: Assignment, at: list[list[Any]]) -> list[Any]:
        hosts = [str(domain).partition(".")[0] for domain in problem.domains]
        terms: list[Any] = [0]
        for s, t in itertools.combinations(range(len(problem.services)), 2):
            for d in range(len(problem.domains)):
                interference = round(float(problem.interference[s, t]) * SCALE)
                if interference:
                    both = model.new_bool_var("")
                    model.add_bool_or([at[s][d].negated(), at[t][d].negated(), both])
                    model.add_implication(both, at[s][d])
                    model.add_implication(both, at[t][d])
                    terms.append(interference * both)
            calls = round(float(problem.calls[s, t]) * float(self.options["call_cost"]) * SCALE)
            if calls:
                away = model.new_bool_var("")
                for host in dict.fromkeys(hosts):
                    here = [[at[x][d] for d in range(len(hosts)) if hosts[d] == host] for x in (s, t)]
                    model.add(sum(here[0]) - sum(here[1]) <= away)
                terms.append(calls * away)
        return terms
