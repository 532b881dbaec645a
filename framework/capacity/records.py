"""Plans of a TAILOR_HOME: a directory for each, with its answer as JSON and its page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framework.capacity.answers import PlanAnswer
from framework.errors import NotFound, StoreError
from framework.model.documents import conform, decode, encode

MOST = 1_000  # plans that are kept, the newest
ANSWER, SUMMARY, PAGE = "plan.json", "summary.json", "plan.html"
_ID = re.compile(r"\d{8}-\d{6}(-\d+)?", re.ASCII)


class PlanRecords:
    """The plans that were made; an id is the time at which one was."""

    def __init__(self, home: Path) -> None:
        self._root = home / "plans"

    def add(self, answer: PlanAnswer) -> str:
        """Keep an answer; return its id.  Plans beyond the newest MOST go.  Raises StoreError where it cannot write."""
        name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        number = 1
        try:
            while True:
                directory = self._root / (name if number == 1 else f"{name}-{number}")
                try:
                    directory.mkdir(parents=True)
                    break
                except FileExistsError:
                    number += 1
            (directory / ANSWER).write_text(json.dumps({"kind": "plan", "version": 1, **encode(answer)}) + "\n")
            (directory / SUMMARY).write_text(json.dumps(summary_of(directory.name, answer)) + "\n")
            for forgotten in self.ids()[MOST:]:
                shutil.rmtree(self._root / forgotten, ignore_errors=True)  # another process may forget it too
        except OSError as error:
            raise StoreError(f"the plan cannot be kept in {self._root}: {error.strerror or error}") from error
        return directory.name

    def ids(self) -> Sequence[str]:
        """Return the ids of the plans, the newest first."""
        names = (path.parent.name for path in self._root.glob(f"*/{ANSWER}"))
        return sorted((name for name in names if _ID.fullmatch(name)), key=_by_time, reverse=True)

    def summaries(self, most: int) -> list[dict[str, Any]]:
        """Return the newest plans in short; without those that cannot be read."""
        read = []
        for plan in self.ids()[:most]:
            try:
                read.append(json.loads((self._root / plan / SUMMARY).read_text()))
            except (OSError, ValueError):
                continue
        return read

    def check(self, plan: str) -> None:
        """Raise NotFound where there is no such plan."""
        if plan not in self.ids():
            raise NotFound(f"no plan {plan!r}")

    def page_path(self, plan: str) -> Path:
        """Return where the page of a plan is."""
        return self._root / plan / PAGE

    def read(self, plan: str) -> PlanAnswer:
        """Return the answer of a plan.  Raises NotFound, also for one that cannot be read."""
        self.check(plan)
        try:
            answer = decode(PlanAnswer, json.loads((self._root / plan / ANSWER).read_text()))
            conform(PlanAnswer, answer)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise NotFound(f"the plan {plan} cannot be read: {error}") from error
        return answer


def summary_of(plan: str, answer: PlanAnswer) -> dict[str, Any]:
    """Return a plan as lists show it."""
    plans = answer.plans
    cheapest = plans.plans[0] if plans.plans else None
    return {
        "plan": plan,
        "at": answer.at,
        "name": plans.need.name,
        "application": answer.application,
        "modelled": answer.modelled,
        "currency": plans.currency,
        "plans": plans.count,
        "machine": None if cheapest is None else cheapest.machine.name,
        "region": None if cheapest is None else cheapest.machine.region,
        "nodes": None if cheapest is None else cheapest.nodes,
        "binding": None if cheapest is None else cheapest.binding,
        "cost_per_hour": None if cheapest is None else cheapest.cost_per_hour,
    }


def _by_time(plan: str) -> tuple[str, int]:
    """Return the sort key of an id such as 20260101-120000-2."""
    date, time, *number = plan.split("-")
    return f"{date}-{time}", int(number[0]) if number else 1
