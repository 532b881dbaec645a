"""The schema of a file of ``search_spaces/``, version 1 (frozen), and its conversion to the model."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import Arithmetic, LinePattern, Port, Strict, Text, Value, refuse
from framework.config.expressions import ALLOWED, Host, NotAnExpression, evaluate
from framework.config.resource_names import is_memory_unit
from framework.config.service_type_apply import ApplyEntry
from framework.config.service_type_probes import ArgumentEntry, ProbeEntry, ResetEntry, Variable
from framework.model import ParameterDefinition, ServiceType, Signs
from optimizer.space import Condition, arithmetic_names, circle_of

Role = Literal[
    "workers", "connections", "cache_bytes", "buffer_bytes", "cores", "gc", "keepalive", "batching", "eviction",
    "queue", "io", "cpu_time", "inert",
]  # fmt: skip
Identifier = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


def _versions(text: str) -> str:
    if not re.fullmatch(r"(>=|<=|==|>|<)[0-9]+(\.[0-9]+)*(,(>=|<=|==|>|<)[0-9]+(\.[0-9]+)*)*", text.replace(" ", "")):
        raise refuse("comparisons such as '>=1.4' or '>=3.6,<5.0'")
    return text


def _expression(value: float | str) -> float | str:
    try:
        evaluate(value, Host(cores=4, memory_mib=16384))
    except NotAnExpression:
        raise refuse(ALLOWED) from None
    return value


Bound = Annotated[int | float | str, AfterValidator(_expression)]


# --------------------------------------------------------------------------- the type


class WhenEntry(Strict):
    """Another parameter of the same type, and the values of it that give this one a meaning."""

    parameter: Identifier
    values: list[Value] = Field(default_factory=list)
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _something(self) -> WhenEntry:
        if not self.values and self.low is None and self.high is None:
            raise refuse("values, low or high")
        return self

    def condition(self) -> Condition:
        return Condition(self.parameter, tuple(self.values), self.low, self.high)


class ParameterEntry(Strict):
    """One tunable."""

    description: Text
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: Value
    low: Bound | None = None
    high: Bound | None = None
    step: Annotated[float, Field(gt=0)] | None = None
    choices: list[Value] = Field(default_factory=list)
    special: Annotated[list[int | float], Field(max_length=3)] = Field(
        default_factory=list,
        description="values outside low to high that mean something else than their size says, such as 0 for off",
    )
    when: WhenEntry | None = Field(None, description="where it means anything; elsewhere it stands at its default")
    derived: Arithmetic | None = Field(
        None,
        description="what its value follows from, such as '{max_heap_mib} / 2', by names of this type; not searched",
    )
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""
    role: Role
    towards: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")] | None = Field(
        None, description="for connections and keepalive: the type of the services that they lead to; else to all"
    )
    weakens: Literal["nothing", "durability", "consistency", "security"] = "nothing"
    risk: Literal["none", "data", "memory"] = Field(
        "none",
        description="what another value can cost: data (lost or evicted), memory (only far above the default); "
        "such a change is recommended only where fresh runs show that it gains something by itself",
    )
    versions: Annotated[str, AfterValidator(_versions)] | None = None
    source: Text
    apply: ApplyEntry
    read_back: ProbeEntry | None = Field(
        None, description="how the server tells the value; without it, the value is only seen to have been passed"
    )

    @model_validator(mode="after")
    def _absent_fits_its_kind(self) -> ParameterEntry:
        edits = self.apply.file if isinstance(self.apply.file, list) else []
        absent = [self.read_back.absent if self.read_back is not None else None, *(edit.absent for edit in edits)]
        for value in absent:
            if self.kind in ("integer", "real") and value is not None:
                if isinstance(value, bool):
                    raise refuse(f"in absent: {ALLOWED}")
                _expression(value)
        return self

    @model_validator(mode="after")
    def _fits_its_resource(self) -> ParameterEntry:
        resource = self.apply.resource
        if not isinstance(resource, str):
            return self
        wanted = ("real", "integer") if resource == "cpus" else ("integer",)
        if resource == "cpus" or not resource.startswith("sysctl:"):
            if self.kind not in wanted:
                raise refuse(f"kind {' or '.join(wanted)} with the resource {resource}")
            if isinstance(self.low, int | float) and self.low <= 0 and not resource.startswith("ulimit:"):
                raise refuse(f"low above 0 with the resource {resource}")
        if resource == "memory" and not is_memory_unit(self.unit):
            raise refuse("unit B, KiB, MiB or GiB with the resource memory")
        return self

    @model_validator(mode="after")
    def _fits_its_kind(self) -> ParameterEntry:
        if self.kind in ("integer", "real"):
            self._check_range()
        elif self.low is not None or self.high is not None or self.step is not None or self.scale == "log":
            raise refuse(f"no low, high, step or log scale with kind {self.kind}")
        elif self.special:
            raise refuse(f"no special values with kind {self.kind}; make them choices")
        elif self.kind == "boolean" and (not isinstance(self.default, bool) or self.choices):
            raise refuse("default true or false, and no choices, with kind boolean")
        elif self.kind == "categorical" and not self.choices:
            raise refuse("choices with kind categorical")
        elif self.kind == "categorical" and (type(self.default), self.default) not in [
            (type(c), c) for c in self.choices
        ]:
            raise refuse("a default that is one of the choices")
        if self.derived is not None and self.kind not in ("integer", "real"):
            raise refuse("derived with kind integer or real")
        if self.derived is not None and (self.when is not None or self.weakens != "nothing"):
            raise refuse("derived without when and weakens: it always has its value")
        if "default" in self.choices:
            raise refuse("choices without the word default, which an application's `fixed` gives a meaning")
        return self

    def _check_range(self) -> None:
        if self.low is None or self.high is None or self.choices:
            raise refuse(f"low and high, and no choices, with kind {self.kind}")
        if isinstance(self.default, bool):
            raise refuse(ALLOWED)
        _expression(self.default)
        if self.kind == "integer":
            for key, number in (
                ("low", self.low),
                ("high", self.high),
                ("default", self.default),
                ("step", self.step),
                *(("special value", value) for value in self.special),
            ):
                if isinstance(number, float) and not number.is_integer():
                    raise refuse(f"an integer {key} with kind integer")

    def definition(self, name: str, command: list[str]) -> ParameterDefinition:
        return ParameterDefinition(
            name=name,
            kind=self.kind,
            default=self.default,
            apply=self.apply.apply(command, self.unit),
            read_back=self.read_back.probe() if self.read_back is not None else None,
            role=self.role,
            low=self.low,
            high=self.high,
            step=self.step,
            choices=tuple(self.choices),
            special=tuple(self.special),
            condition=self.when.condition() if self.when is not None else None,
            derived=self.derived or "",
            towards=self.towards or "",
            scale=self.scale,
            unit=self.unit,
            versions=self.versions or "",
            weakens=self.weakens,
            risk=self.risk,
            description=self.description.strip(),
            source=self.source.strip(),
        )


class SignsEntry(Strict):
    """Signs by which `tailor init` recognises a service of this type."""

    images: list[LinePattern] = Field(
        default_factory=list, description="regular expressions of image names, without registry and tag"
    )
    programs: list[Text] = Field(
        default_factory=list, description="programs of its command, entry point or health check"
    )
    variables: list[Variable] = Field(default_factory=list, description="variables that it, or its image, has")
    ports: list[Port] = Field(default_factory=list, description="ports that it listens on")

    def signs(self) -> Signs:
        return Signs(tuple(self.images), tuple(self.programs), tuple(self.variables), tuple(self.ports))


class ServiceTypeFile(Strict):
    """``search_spaces/<name>.yaml``: a kind of server and what can be tuned about it."""

    kind: Literal["service-type"]
    version: Literal[1]
    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")]
    description: Text
    builds_on: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")] | None = Field(
        None, description="the type whose parameters, arguments and statistics it has too, as spring-boot has jvm's"
    )
    signs: SignsEntry = Field(SignsEntry(), description="by what `tailor init` recognises a service of this type")
    tier: Literal["web server", "program", "store"] = Field(
        "program", description="where `tailor init` puts it among the hosts of a large application"
    )
    speaks_http: bool = Field(True, description="false: clients cannot call it by HTTP, so that it is never the entry")
    measured: bool = Field(True, description="false: rendering is tested, but no measurement has been made with it")
    most_cores: Annotated[int, Field(ge=1, le=4096)] | Identifier | None = Field(
        None,
        description="cores that one such server can use, however many there are, or the parameter that says how many; "
        "left out where it can use all, or where that is not known",
    )
    command: list[Text] = Field(
        default_factory=list,
        description="what the image runs by itself; flags are appended to it where the compose file has no command",
    )
    arguments: dict[Identifier, ArgumentEntry] = Field(
        default_factory=dict, description="name -> what stands for {name} in the probes of a service"
    )
    ready: ProbeEntry | None = None
    reset: list[ResetEntry] = Field(default_factory=list)
    statistics: dict[Identifier, ProbeEntry] = Field(default_factory=dict)
    parameters: dict[Identifier, ParameterEntry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _conditions_lead_somewhere(self) -> ServiceTypeFile:
        for name, entry in self.parameters.items():
            at, passed = entry.when, {name}
            while at is not None:
                if at.parameter not in self.parameters or at.parameter in passed:
                    raise refuse(f"in `when` of {name}: another parameter of this type, and no circle")
                passed.add(at.parameter)
                at = self.parameters[at.parameter].when
        return self

    @model_validator(mode="after")
    def _most_cores_is_known(self) -> ServiceTypeFile:
        name = self.most_cores
        if isinstance(name, str) and (name not in self.parameters or self.parameters[name].kind != "integer"):
            raise refuse("as most_cores a number, or an integer of this type's own parameters")
        return self

    @model_validator(mode="after")
    def _derived_lead_somewhere(self) -> ServiceTypeFile:
        texts = {name: entry.derived for name, entry in self.parameters.items() if entry.derived is not None}
        sources = {name: arithmetic_names(text) for name, text in texts.items()}
        for name, named in sources.items():
            for source in named:
                if source not in self.parameters or self.parameters[source].kind == "categorical":
                    raise refuse(f"in `derived` of {name}: numbers of this type; {source!r} is none")
        for name, entry in self.parameters.items():
            if entry.when is not None and entry.when.parameter in sources:
                raise refuse(f"in `when` of {name}: a parameter that is not derived")
        if circle := circle_of(sources):
            raise refuse(f"derived without a circle; {' -> '.join(circle)} is one")
        return self

    @model_validator(mode="after")
    def _shared_variables_are_lists(self) -> ServiceTypeFile:
        whole: dict[str, str] = {}
        for name, entry in self.parameters.items():
            variable = entry.apply.environment
            variables = [variable] if isinstance(variable, str) else variable if isinstance(variable, list) else []
            for variable_name in variables:
                if variable_name in whole:
                    both = f"both {whole[variable_name]} and {name} set all of it"
                    raise refuse(f"one parameter that sets {variable_name}: {both}")
                whole[variable_name] = name
        return self

    def service_type(self) -> ServiceType:
        return ServiceType(
            name=self.name,
            description=self.description.strip(),
            parameters=tuple(entry.definition(name, self.command) for name, entry in self.parameters.items()),
            ready=self.ready.probe() if self.ready is not None else None,
            reset=tuple(entry.step() for entry in self.reset),
            statistics={name: entry.probe() for name, entry in self.statistics.items()},
            measured=self.measured,
            tier=self.tier,
            speaks_http=self.speaks_http,
            arguments={name: entry.argument() for name, entry in self.arguments.items()},
            signs=self.signs.signs(),
            most_cores=self.most_cores,
            command=tuple(self.command),
            builds_on=self.builds_on or "",
        )
