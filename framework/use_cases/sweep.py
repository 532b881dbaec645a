"""A rate sweep: raise the rate on the default configuration until p95 passes a limit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from framework.bench import Backends, Bench, Watch
from framework.config.writing import write_text
from framework.errors import FieldName, InputError, Interrupted, LeaseLost
from framework.model import Application, Sweep, TuneRequest
from framework.model.events import SweepFinished
from framework.report.plots import sweep_plot
from framework.study.runner import StudyRunner
from framework.study.sweep import sweep
from framework.use_cases.studies import Studies
from optimizer.space import SearchSpace


class Sweeps:
    """Rate sweeps, each recorded as a study of its own."""

    def __init__(self, backends: Backends, studies: Studies, runner: StudyRunner) -> None:
        self._backends = backends
        self._studies = studies
        self._runner = runner

    def run(
        self,
        path: Path,
        watch: Watch,
        *,
        start_rps: float,
        factor: float,
        limit_ms: float | None,
        window_s: float,
        repetitions: int,
        maximum_rps: float,
        seed: int,
        limits: Mapping[str, float],
        testbed: str = "auto",
    ) -> Sweep:
        """Raise the rate of the application at ``path`` by ``factor`` until p95 passes ``limit_ms`` (see ``sweep``).

        ``limits``: on disturbance, as in a TuneRequest.  Raises InputError, MissingPrerequisite.
        """
        if factor <= 1 or start_rps <= 0:
            raise InputError(
                FieldName("start_rps"), ", ", FieldName("factor"),
                f": found {start_rps:g}, {factor:g}; allowed: above 0, above 1",
            )  # fmt: skip
        _check_rate_is_kept(self._backends.application(path))
        request = TuneRequest(
            path,
            optimizer="random",
            iterations=1,
            repetitions=repetitions,
            window_s=window_s,
            rate_rps=start_rps,
            pairs=2,
            minimal=0,
            seed=seed,
            limits=limits,
            testbed=testbed,
        )
        study = self._studies.create(request)

        def steps(bench: Bench, space: SearchSpace) -> Sweep:
            finished = sweep(
                bench,
                study.id,
                study.plan,
                space.default(),
                start_rps=start_rps,
                factor=factor,
                limit_ms=limit_ms,
                maximum_rps=maximum_rps,
            )
            self._backends.store.add_event(study.id, SweepFinished(finished))
            return finished

        try:
            return self._runner.on_bench(study, watch, steps)
        except LeaseLost:
            raise
        except Interrupted as error:
            raise Interrupted("the sweep was stopped before its first rate was measured") from error

    def plot(self, sweep: Sweep, path: Path | None = None) -> Path:
        """Draw a sweep; by default below TAILOR_HOME.  Raises InputError when that cannot be written."""
        path = path or self._backends.home / "reports" / f"sweep-{sweep.application}.svg"
        return write_text(path, sweep_plot(sweep))


def _check_rate_is_kept(application: Application) -> None:
    if application.loop == "closed":
        raise InputError(
            f"{application.generator} sends requests when replies came, at no rate that could be raised; allowed: "
            "a sweep with a generator that keeps a rate"
        )
