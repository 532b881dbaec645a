"""The placement of least interference and communication, by constraint programming.

Source: OR-Tools' CP-SAT (an extra).  A variable for each pair of services says whether they share a domain.  Among more
services than domains, some pair must (Groetschel & Wakabayashi, Mathematical Programming 45 (1989), on partitions into
cliques).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimizer import registry
from optimizer.base import Option
from optimizer.errors import InvalidInput, SearchExhausted
from optimizer.library_optimizer import library
from optimizer.one_shot import PlacementSolver
from optimizer.placement.assignment import Assignment

COST_SCALE = 1_000_000  # factor by which costs become integers
WEIGHT_SCALE = 1e11  # for weights
MAX_CUTS = 20_000  # pair cuts at most, one for each set of services
PLAIN, RELAXED = 1, 2  # the solver's linearisation level: the low one finds solutions sooner, the high one proves more

Pair: TypeAlias = tuple[int, int]


class PlacementCPSAT(PlacementSolver):
    """One suggestion, with a proof that it is the best, or a bound.

    Domains of one host have its name before a dot ("node1.0", "node1.1"): calls within a host cost nothing.
    """

    name = "placement-cpsat"
    summary = "placement: interference and calls between domains, with services kept apart or pinned"
    source = "Perron & Didier, OR-Tools CP-SAT"
    suits = "to place many services, on hosts of different sizes, some of them pinned or kept apart"
    options_known: ClassVar[Mapping[str, Option]] = {
        "call_cost": Option(0.0, "what a call between hosts costs, in units of interference", low=0.0, high=1e6),
        "seconds": Option(
            20.0, "how long it may search, in the solver's deterministic seconds", low=0.1, high=86_400.0
        ),
    }

    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        """Search half of the time for a good placement, and the other half for a proof or a bound."""
        hint = self._knapsack(problem)
        status, places, bound = self._search(problem, hint, PLAIN)
        if status == "INFEASIBLE":
            return None
        if status != "OPTIMAL":
            status, places, other = self._search(problem, places, RELAXED)
            bound = max(bound, other)
        if places is None:
            return None
        value = self._cost(problem, places)
        if status == "OPTIMAL":
            return places, f"predicted cost {value:.4g}, proved to be the least"
        gap = (value - bound) / value if value else 0.0
        return places, f"predicted cost {value:.4g}, the least is {bound:.4g} or more, a gap of {gap:.1%}"

    def _search(
        self, problem: Assignment, hint: NDArray[np.int64] | None, linear: int
    ) -> tuple[str, NDArray[np.int64] | None, float]:
        """Return the solver's status, the better of its placement and ``hint``, and its bound on the cost."""
        model, at = self._model(problem)
        if hint is not None:
            for s, d in itertools.product(range(len(at)), range(len(at[0]))):
                model.add_hint(at[s][d], int(hint[s] == d))
        solver = library("ortools.sat.python.cp_model", "ortools").CpSolver()
        solver.parameters.num_workers = 1  # with several, the choice among optima depends on their timing
        solver.parameters.random_seed = int(self.stream(1).integers(2**31 - 1))
        solver.parameters.max_deterministic_time = float(self.options["seconds"]) / 2
        solver.parameters.linearization_level = linear
        status = solver.status_name(solver.solve(model))
        if status not in ("OPTIMAL", "FEASIBLE"):
            return status, hint, solver.best_objective_bound / COST_SCALE
        places = np.argmax(np.array([[solver.value(variable) for variable in row] for row in at]), axis=1).astype(
            np.int64
        )
        if hint is not None and self._cost(problem, hint) < self._cost(problem, places):
            places = hint
        return status, places, solver.best_objective_bound / COST_SCALE

    def _knapsack(self, problem: Assignment) -> NDArray[np.int64] | None:
        """Return the placement of the knapsack, as the first hint; None where it has none."""
        try:
            [suggestion] = registry.load("knapsack")(self.space, seed=0).ask()
        except (InvalidInput, SearchExhausted):
            return None
        return problem.places(suggestion.configuration)

    def _cost(self, problem: Assignment, places: NDArray[np.int64]) -> float:
        """Return the cost of interference and calls, as in the model."""
        hosts = np.array([_host(problem, d) for d in range(len(problem.domains))])[places]
        calls = float(problem.calls[hosts[:, None] != hosts[None, :]].sum()) / 2
        return problem.cost(places) + float(self.options["call_cost"]) * calls

    def _model(self, problem: Assignment) -> tuple[Any, list[list[Any]]]:
        cp = library("ortools.sat.python.cp_model", "ortools")
        model = cp.CpModel()
        services, domains = range(len(problem.services)), range(len(problem.domains))
        at = [[model.new_bool_var(f"{problem.services[s]} at {problem.domains[d]}") for d in domains] for s in services]
        for row in at:
            model.add_exactly_one(row)
        for limit in problem.limits:
            # Fine enough that services which fill a domain exactly still fit after rounding.
            size = WEIGHT_SCALE / max(1.0, *limit.bounds[np.isfinite(limit.bounds)])
            for d in domains:
                if np.isfinite(limit.bounds[d]):
                    used = sum(round(float(limit.weights[s]) * size) * at[s][d] for s in services)
                    slack = 0.5e-9 * max(1.0, abs(float(limit.bounds[d])))  # half of what Assignment.fits allows
                    model.add(used <= math.floor((float(limit.bounds[d]) + slack) * size))
        shared = {(s, t): model.new_bool_var("") for s, t in itertools.combinations(services, 2)}
        for (s, t), both in shared.items():
            if problem.apart[s, t]:
                model.add(both == 0)
            for d in domains:
                model.add_bool_or([at[s][d].negated(), at[t][d].negated(), both])
                model.add_bool_or([both.negated(), at[s][d].negated(), at[t][d]])
                model.add_bool_or([both.negated(), at[s][d], at[t][d].negated()])
        for s, d in np.argwhere(~problem.allowed).tolist():
            model.add(at[s][d] == 0)
        self._add_cuts(model, problem, at, shared)
        model.minimize(sum(self._costs(model, problem, at, shared)))
        return model, at

    def _add_cuts(self, model: Any, problem: Assignment, at: list[list[Any]], shared: Mapping[Pair, Any]) -> None:
        """Add implied constraints that save most of the search: pairs that must share a domain, an order of domains."""
        services, domains = range(len(problem.services)), range(len(problem.domains))
        if math.comb(len(services), len(domains) + 1) <= MAX_CUTS:
            for subset in itertools.combinations(services, len(domains) + 1):
                model.add_bool_or([shared[pair] for pair in itertools.combinations(subset, 2)])
        interchangeable = all(np.ptp(limit.bounds) == 0 for limit in problem.limits if np.isfinite(limit.bounds).any())
        if (
            interchangeable
            and problem.allowed.all()
            and not problem.alone.any()
            and not (self.options["call_cost"] and problem.calls.any())
        ):
            for s, d in itertools.product(services, domains[1:]):  # a domain opens after the one before it
                model.add_bool_or([at[s][d].negated(), *(at[before][d - 1] for before in range(s))])

    def _costs(self, model: Any, problem: Assignment, at: list[list[Any]], shared: Mapping[Pair, Any]) -> list[Any]:
        alone = [(at[s][d], float(cost)) for (s, d), cost in np.ndenumerate(problem.alone) if cost]
        terms: list[Any] = [round(cost * COST_SCALE) * variable for variable, cost in alone]
        hosts: dict[str, list[int]] = {}
        for d in range(len(problem.domains)):
            hosts.setdefault(_host(problem, d), []).append(d)
        for (s, t), both in shared.items():
            remote = round(float(problem.remote[s, t]) * COST_SCALE)
            terms.append((round(float(problem.interference[s, t]) * COST_SCALE) - remote) * both + remote)
            calls = round(float(problem.calls[s, t]) * float(self.options["call_cost"]) * COST_SCALE)
            if calls:
                apart = model.new_bool_var("")
                for members in hosts.values():
                    model.add(sum(at[s][d] for d in members) - sum(at[t][d] for d in members) <= apart)
                terms.append(calls * apart)
        return terms


def _host(problem: Assignment, domain: int) -> str:
    return str(problem.domains[domain]).partition(".")[0]
