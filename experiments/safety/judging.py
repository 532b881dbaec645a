"""The answers that are allowed: everything else is a finding of the campaign."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.safety.wire import Answer, Request
from tests.campaign import ROOT

# Where a bounded number is reached, 503 is the right answer.
BUSY = re.compile(
    r"\d+ other answers are being computed"
    r"|\d+ (asks and tells|studies) of large spaces are waiting"
    r"|too many watchers"
    r"|this took longer than \d+ s"
    r"|this took too long a moment ago"
)
WHERE = re.compile(rb"Traceback|site-packages|/lib/python3|" + re.escape(str(ROOT).encode()))
MOST_KEPT = 50  # findings that are kept whole
PLAIN_TEXT = (400,)  # what the server says of a request that it cannot read


@dataclass
class Judge:
    """Takes answers from many threads.  ``hidden``: texts that no answer may contain."""

    hidden: Sequence[str]
    answers: Counter[str] = field(default_factory=Counter)  # route and status
    busy: Counter[str] = field(default_factory=Counter)  # 503, by what they say
    closed: int = 0  # connections without an answer
    findings: list[dict[str, Any]] = field(default_factory=list)
    found: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> int:
        return self.answers.total()

    def look(self, request: Request, answer: Answer) -> None:
        """Count an answer, and note what is wrong with it."""
        problems = self._problems(request, answer)
        with self._guard:
            self.answers[f"{request.what}: {answer.status or 'closed'}"] += 1
            if answer.status == 503:
                self.busy[self._detail(answer)] += 1
        for problem in problems:
            self.note(problem, request=repr(request)[:2000], status=answer.status, answer=repr(answer.body[:2000]))

    def note(self, problem: str, **about: Any) -> None:
        """Record a finding."""
        with self._guard:
            self.found += 1
            if len(self.findings) < MOST_KEPT:
                self.findings.append({"problem": problem, **about})
                print(f"found: {problem}: {about}", file=sys.stderr, flush=True)

    def _problems(self, request: Request, answer: Answer) -> list[str]:
        everything = answer.everything
        problems = [f"it contains {text}" for text in self.hidden if text.encode() in everything]
        if where := WHERE.search(everything):
            problems.append(f"it says {where[0]!r}")
        if answer.status >= 500 and not (answer.status == 503 and BUSY.search(self._detail(answer))):
            problems.append(f"{answer.status}")
        if answer.status >= 400 and request.method != "HEAD":
            kind = answer.header("content-type")
            plain = answer.status in PLAIN_TEXT and kind.startswith("text/plain")
            if not (plain or kind == "application/problem+json" or request.what.startswith("page POST /login")):
                problems.append(f"a refusal that is {kind or 'nothing'}")
        return problems

    @staticmethod
    def _detail(answer: Answer) -> str:
        try:
            return str(json.loads(answer.body)["detail"])
        except (ValueError, KeyError, TypeError):
            return ""
