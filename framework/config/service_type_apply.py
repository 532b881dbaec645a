"""The part of a parameter's entry that says how a value reaches the service."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import LinePattern, Strict, Text, Value, refuse
from framework.config.key_paths import parts_of
from framework.config.keyed_files import FORMATS, FileFormat, format_of
from framework.config.resource_names import (
    ALLOWED_RESOURCES,
    bytes_of,
    is_memory_unit,
    memory_unit,
    resource_problem,
)
from framework.config.service_type_probes import Template, Variable, Words
from framework.model import Apply, Edit

FORMS = "exactly one of environment, flag, file, resource, live, template"


def _key_path(text: str) -> str:
    try:
        parts_of(text)
    except ValueError as error:
        raise refuse(str(error)) from None
    return text


def _resource(name: str) -> str:
    if problem := resource_problem(name):
        raise refuse(problem)
    return name


KeyPathText = Annotated[str, Field(min_length=1), AfterValidator(_key_path)]
ContainerPath = Annotated[str, Field(pattern="^/")]


class EditEntry(Strict):
    """One change to a configuration file: of the lines that match a pattern, or of the value at a key path."""

    path: ContainerPath | Annotated[list[ContainerPath], Field(min_length=1)] = Field(
        description="of one file; or of several, the last part with * for any text: those that have a line of that kind"
    )
    pattern: LinePattern | None = None
    line: Text | None = None
    after: LinePattern = ""
    unless: Value | None = None
    absent: Value | None = Field(
        None, description="the value that the server has where the file has no such line, if not the default"
    )
    key: KeyPathText | None = Field(None, description="instead of pattern and line: where the value stands")
    format: FileFormat | None = Field(None, description="of a file with a key; default: what its extension names")
    value: Template = Field("{value}", description="what stands at the key")
    create: bool = Field(
        False,
        description="a file that is neither mounted nor in the image is made; of several paths, the first whose "
        "directory has files",
    )

    @model_validator(mode="after")
    def _one(self) -> EditEntry:
        if self.key is None:
            if self.pattern is None or self.line is None or self.format is not None or self.value != "{value}":
                raise refuse("pattern and line, or key")
        elif self.pattern is not None or self.line is not None or self.after:
            raise refuse("pattern and line, or key, not both")
        elif not isinstance(self.path, str):
            raise refuse("one path with key")
        elif self.format is None and format_of(self.path) is None:
            raise refuse(f"with key and a file of this name, format: {', '.join(FORMATS)}")
        return self

    def edit(self) -> Edit:
        path, *also = [self.path] if isinstance(self.path, str) else self.path
        common: dict[str, Any] = {"unless": self.unless, "create": self.create, "absent": self.absent}
        if self.key is None:
            return Edit(path, self.pattern or "", self.line or "", self.after, also=tuple(also), **common)
        return Edit(path, "", self.value, key=self.key, format=self.format or format_of(path) or "", **common)


class Named(Strict):
    """Environment variables or a compose key, with the text that they get."""

    name: Text = Field(description="of several variables (blanks between them), the server heeds the first most")
    template: Template = "{value}"
    separator: str = Field(
        "", description="of an environment variable that is a list of items, such as ' ' of JAVA_TOOL_OPTIONS"
    )
    resets: str = Field(
        "",
        description="of such a variable: items put before this one, which take back what the command says, such as "
        "-XX:-UseG1GC",
    )


class ApplyEntry(Strict):
    """One of environment, flag, file, resource, live, template."""

    environment: Variable | Annotated[list[Variable], Field(min_length=1)] | Named | None = None
    flag: Words | Annotated[list[Words], Field(min_length=1)] | None = Field(
        None,
        description="a flag, or several spellings of it, of which the one is replaced that the command has; beside "
        "environment: the flag goes before the variable, so it is replaced where the command has it",
    )
    file: ContainerPath | Annotated[list[EditEntry], Field(min_length=1)] | None = Field(
        None, description="a path with `key` beside it, or a list of changes"
    )
    key: KeyPathText | None = Field(
        None, description="where the value stands in `file`, such as server.http.threads or clusters[name=api].limit"
    )
    format: FileFormat | None = Field(None, description="of `file`; default: what its extension names")
    value: Template = Field("{value}", description="what stands at `key`")
    create: bool = Field(False, description="`file` is made where it is neither mounted nor in the image")
    resource: Annotated[str, AfterValidator(_resource)] | Named | None = Field(
        None, description=f"what compose gives the container: {ALLOWED_RESOURCES}; or a compose key with a template"
    )
    live: Words | None = None
    template: Literal[True] | None = Field(
        None, description="only placeholders `${service.parameter}` in an application's `templates` have the value"
    )
    words: dict[str, str] = Field(default_factory=dict)
    number: Literal["decimal", "hexadecimal"] = "decimal"
    units: dict[str, float] = Field(
        default_factory=dict,
        description="unit that the server accepts, or '' for none -> its size in the parameter's unit, to read what "
        "the user has; sizes (k, MB, GiB: powers of 1,024) and times (ms, s, min) are known",
    )

    @model_validator(mode="after")
    def _one(self) -> ApplyEntry:
        forms = (self.environment, self.flag, self.file, self.resource, self.live, self.template)
        both = self.environment is not None and self.flag is not None
        if sum(form is not None for form in forms) != 1 + both:
            raise refuse(FORMS)
        self._check_file()
        return self

    def _check_file(self) -> None:
        if isinstance(self.file, str):
            if self.key is None:
                raise refuse("key beside a file, such as server.http.threads")
            if self.format is None and format_of(self.file) is None:
                raise refuse(f"format beside a file of this name: {', '.join(FORMATS)}")
        elif self.key is not None or self.format is not None or self.create or self.value != "{value}":
            raise refuse("key, format, value and create beside a file's path, or inside the list of file")
        elif self.file is not None and not any("{value}" in (edit.line or edit.value) for edit in self.file):
            raise refuse("at least one line with {value}")

    def apply(self, command: list[str], unit: str = "") -> Apply:
        """Convert to the model.

        ``command``: the image's own command, which flags are appended to.  ``unit``: the parameter's.
        """
        common: dict[str, Any] = {"words": dict(self.words), "number": self.number, "units": dict(self.units)}
        flags = [self.flag] if isinstance(self.flag, str) else self.flag or []
        if flags and self.environment is None:
            return Apply("flag", shlex.join(command), flags[0], flags=tuple(flags[1:]), **common)
        common["flags"] = tuple(flags)
        if self.live is not None:
            return Apply("live", template=self.live, **common)
        if self.template:
            return Apply("template", **common)
        if isinstance(self.file, str):
            file_format = self.format or format_of(self.file) or ""
            edit = Edit(self.file, "", self.value, create=self.create, key=self.key or "", format=file_format)
            return Apply("file", edits=(edit,), **common)
        if self.file is not None:
            return Apply("file", edits=tuple(edit.edit() for edit in self.file), **common)
        if self.resource is not None:
            return self._as_resource(unit, common)
        if isinstance(self.environment, Named):
            named = self.environment
            # Options of a program: several share such a variable, and the user may have others in it.
            separator = named.separator or (" " if named.template.startswith("-") else "")
            common["resets"] = named.resets
            return Apply("environment", named.name, named.template, separator=separator, **common)
        names = [self.environment] if isinstance(self.environment, str) else self.environment or []
        return Apply("environment", name=" ".join(names), **common)

    def _as_resource(self, unit: str, common: dict[str, Any]) -> Apply:
        if isinstance(self.resource, Named):
            return Apply("resource", name=self.resource.name, template=self.resource.template, **common)
        if self.resource != "memory" or not is_memory_unit(unit):
            return Apply("resource", name=self.resource or "", **common)
        common["units"] = {"": 1 / bytes_of(unit), **self.units}  # a number alone is one of bytes
        return Apply("resource", name="memory", template=f"{{value}}{memory_unit(unit)}", **common)
