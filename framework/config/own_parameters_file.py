"""Parameters of one service of an application, in application.yaml: for programs that no service type describes."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from framework.config.service_type_apply import ApplyEntry
from framework.config.service_type_file import ParameterEntry, Role
from framework.model import UNKNOWN_COMMAND, ParameterDefinition


class OwnParameterEntry(ParameterEntry):
    """A tunable of one service, as in a service type, but that nobody has to explain it."""

    description: str = ""
    role: Role = Field("inert", description="what it means to a model of the application; default: nothing")
    source: str = ""
    apply: ApplyEntry = Field(
        default_factory=lambda: ApplyEntry.model_validate({"template": True}),
        description="how its value reaches the service; left out: only placeholders of `templates` have it",
    )

    def own(self, name: str) -> ParameterDefinition:
        """Convert to the model; what the service's image runs by itself, only the image says."""
        definition = self.definition(name, [])
        if definition.apply.kind != "flag":
            return definition
        return replace(definition, apply=replace(definition.apply, name=UNKNOWN_COMMAND))
