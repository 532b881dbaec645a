"""The vocabulary as data: the classes that the stages of a trial pass to each other.

Everything here is frozen and free of I/O.  A file is read into these classes by ``framework.config``; adapters
(testbeds, load, traces, store) receive and return them and keep their own libraries' types to themselves.
Units stand in the names: ``_s`` seconds, ``_ms`` milliseconds, ``_ns`` integer nanoseconds since the Unix epoch,
``_rps`` requests per second, ``_mib`` mebibytes.
"""

from framework.model.application import (
    Application,
    Hook,
    Hooks,
    ImageFacts,
    Limits,
    Objective,
    OutcomeConstraint,
    Placement,
    Present,
    Service,
    Term,
    Tracing,
    Workload,
)
from framework.model.deployment import (
    Container,
    Deployment,
    Expectation,
    Finding,
    Machine,
    Running,
    Usage,
)
from framework.model.identity import StudyId
from framework.model.knowledge import (
    Apply,
    Argument,
    Edit,
    ParameterDefinition,
    Probe,
    ServiceType,
)
from framework.model.measurement import (
    Estimate,
    LoadPlan,
    LoadResult,
    Measurement,
    ServiceTime,
    cpu_us_per_request,
)
from framework.model.study import (
    DOCKER,
    EXTERNAL,
    TWIN,
    Offer,
    Purpose,
    Step,
    Study,
    StudyPlan,
    StudyState,
    Sweep,
    Trial,
    TrialState,
    Verdict,
)
from framework.model.tune_request import DEFAULT_OPTIMIZER, TuneRequest
from optimizer.space import Configuration, Value

__all__ = [
    "DEFAULT_OPTIMIZER",
    "DOCKER",
    "EXTERNAL",
    "TWIN",
    "Application",
    "Apply",
    "Argument",
    "Configuration",
    "Container",
    "Deployment",
    "Edit",
    "Estimate",
    "Expectation",
    "Finding",
    "Hook",
    "Hooks",
    "ImageFacts",
    "Limits",
    "LoadPlan",
    "LoadResult",
    "Machine",
    "Measurement",
    "Objective",
    "Offer",
    "OutcomeConstraint",
    "ParameterDefinition",
    "Placement",
    "Present",
    "Probe",
    "Purpose",
    "Running",
    "Service",
    "ServiceTime",
    "ServiceType",
    "Step",
    "Study",
    "StudyId",
    "StudyPlan",
    "StudyState",
    "Sweep",
    "Term",
    "Tracing",
    "Trial",
    "TrialState",
    "TuneRequest",
    "Usage",
    "Value",
    "Verdict",
    "Workload",
    "cpu_us_per_request",
]
