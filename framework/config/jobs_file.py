"""The schema of ``jobs.yaml``, version 1: best-effort jobs for a guard, the first one first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from framework.config.checked import Strict, load, refuse, refuse_key
from framework.model.batch_job import JobSpec
from framework.model.profiling import STRESSORS

JOB_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$"


USER_NAME = r"^[a-zA-Z_][a-zA-Z0-9_.-]{0,31}$"
UNPRIVILEGED = "an unprivileged user of this machine, such as nobody: best-effort jobs never run as root"
ONLY_COMMANDS = "the key only where there is no image: a command of this machine has it, a container has its own"
HOST_NETWORK = "no network where there is no image: a command of this machine has the machine's own"

Word = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Variable = Annotated[str, Field(pattern=r"^[^=\x00]+$")]


def _stressor(name: str) -> str:
    if name not in STRESSORS:
        raise refuse(f"one of {', '.join(STRESSORS)}")
    return name


class JobEntry(Strict):
    """One job, or ``count`` jobs of the same content, whose names get a number.

    Either ``image`` (a container) or ``command`` alone (a program of this machine, in a control group of its own).
    """

    name: Annotated[str, Field(pattern=JOB_NAME)]
    image: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        "", description="of this machine; it is not pulled; without one, the command is a program of this machine"
    )
    command: list[Word] = Field(
        default_factory=list,
        description="words for the image's entry point, or a program of this machine and its arguments; no shell",
    )
    user: Annotated[str, Field(pattern=USER_NAME)] = Field(
        "nobody", description="whom a command without an image runs as, with that user's own group alone; never root"
    )
    directory: Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=4096)] = Field(
        "/", description="working directory of a command without an image"
    )
    count: int = Field(1, ge=1, le=1000)
    kind: Annotated[str, Field(max_length=63)] = Field(
        "", description="jobs of one kind suffer and harm alike; a policy may pause a kind; default: the name"
    )
    cores: float = Field(1.0, gt=0, le=4096, description="cores that it can use at once")
    memory_mib: int = Field(0, ge=0, le=2**24, description="at most; 0: no limit")
    network: Literal["none", "bridge"] = Field(
        "none", description="of a container; left out without an image: a command has the network of this machine"
    )
    environment: dict[Variable, Word] = Field(
        default_factory=dict, description="a command without an image has these, PATH, HOME, USER and LOGNAME"
    )
    priority: int = Field(0, ge=-1000, le=1000, description="higher ones first")
    attempts: int = Field(3, ge=1, le=100, description="that may end badly before it counts as failed")
    limit_s: float = Field(0.0, ge=0, description="CPU seconds of one attempt; 0: no limit")
    demands: dict[Annotated[str, AfterValidator(_stressor)], Annotated[float, Field(gt=0, le=4096)]] = Field(
        default_factory=dict,
        description="stressor of `tailor profile` -> how many of its threads press on that resource as much as the job "
        "does; with a profile of the application, the job that harms it most is paused first",
    )

    @field_validator("user")
    @classmethod
    def _not_root(cls, user: str) -> str:
        if user == "root":
            raise refuse(UNPRIVILEGED)
        return user

    @model_validator(mode="after")
    def _image_or_command(self) -> JobEntry:
        given = self.model_fields_set
        if "image" in given:
            for key in ("user", "directory"):
                if key in given:
                    raise refuse_key(key, ONLY_COMMANDS)
        elif not self.command or not self.command[0]:
            raise refuse("an image (a container), or a command alone: a program of this machine and its arguments")
        elif "network" in given:
            raise refuse_key("network", HOST_NETWORK)
        return self

    def specs(self) -> list[JobSpec]:
        """Return the jobs, one or ``count``."""
        names = [self.name] if self.count == 1 else [f"{self.name}-{number + 1}" for number in range(self.count)]
        network, user, directory = (self.network, "", "") if self.image else ("host", self.user, self.directory)
        return [
            JobSpec(
                name, self.image, tuple(self.command), self.kind or self.name, self.cores, self.memory_mib, network,
                dict(self.environment), self.priority, self.attempts, self.limit_s, dict(self.demands), user, directory,
            )
            for name in names
        ]  # fmt: skip


class JobsFile(Strict):
    """``jobs.yaml``."""

    kind: Literal["jobs"]
    version: Literal[1]
    jobs: list[JobEntry] = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _names_differ(self) -> JobsFile:
        seen = set()
        for entry in self.jobs:
            for spec in entry.specs():
                if spec.name in seen:
                    raise refuse(f"a name for each job, not {spec.name!r} twice")
                seen.add(spec.name)
        return self


def load_jobs(path: Path) -> list[JobSpec]:
    """Read a file of jobs.  Raises FileError."""
    _, file = load(path, JobsFile)
    return [spec for entry in file.jobs for spec in entry.specs()]
