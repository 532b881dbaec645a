"""Files of a compose document: its relative paths made absolute, and its mounted files edited."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.config.key_paths import NoPlace
from framework.config.keyed_files import with_value
from framework.config.reading import read_bytes
from framework.errors import FileError, InputError
from framework.model import Edit
from optimizer.space import Value

# A comment, or text with quoted parts up to the brace or semicolon that ends a statement.
_STATEMENT = re.compile(r"""#.*|(?:"(?:\\.|[^"])*"|'(?:\\.|[^'])*'|\$\{\w+\}|[^{};#"'])*[{};]|[^{};#]+""")
RENDERED = "files"
"""Directory of rendered files below the deployment's own: files/<service>/<name>."""


def absolute(path: str, directory: Path) -> str:
    """Make a host path of the compose file absolute; compose itself resolves ``~`` and ``${...}``."""
    if path.startswith(("/", "~", "$")):
        return path
    return str(Path(posixpath.normpath((directory / path).as_posix()))).replace("$", "$$")


def with_absolute_paths(service: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Make the host paths of a service absolute: of bind mounts, build contexts and environment files."""
    changed = dict(service)
    if "volumes" in service:
        changed["volumes"] = [_absolute_mount(mount, directory) for mount in service["volumes"] or []]
    if "build" in service:
        changed["build"] = _absolute_build(service["build"], directory)
    for key in ("env_file", "label_file"):
        if key in service:
            changed[key] = _absolute_files(service[key], directory)
    return changed


def with_absolute_sources(entries: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Make ``file`` of top-level ``configs`` or ``secrets`` absolute."""
    return {
        name: {**entry, "file": absolute(entry["file"], directory)}
        if isinstance(entry, dict) and isinstance(entry.get("file"), str)
        else entry
        for name, entry in entries.items()
    }


def _absolute_mount(mount: Any, directory: Path) -> Any:
    if isinstance(mount, dict):
        if mount.get("type") == "bind" and "source" in mount:
            return {**mount, "source": absolute(str(mount["source"]), directory)}
        return mount
    source, separator, rest = str(mount).partition(":")
    if not separator or not source.startswith("."):
        return mount  # a named volume, an anonymous one, or absolute already
    path = absolute(source, directory)
    if ":" in path:
        raise InputError(f"{directory}: a colon in the path cannot be mounted; move the application's directory")
    return f"{path}:{rest}"


def _absolute_build(build: Any, directory: Path) -> Any:
    remote = re.compile(r"^(https?://|git@|git://|ssh://|github\.com/|docker-image://|service:)")
    if isinstance(build, str):
        return build if remote.match(build) else absolute(build, directory)
    if isinstance(build, dict) and isinstance(build.get("context"), str) and not remote.match(build["context"]):
        return {**build, "context": absolute(build["context"], directory)}
    return build


def _absolute_files(files: Any, directory: Path) -> Any:
    if isinstance(files, str):
        return absolute(files, directory)
    if isinstance(files, dict) and isinstance(files.get("path"), str):
        return {**files, "path": absolute(files["path"], directory)}
    return [_absolute_files(item, directory) for item in files] if isinstance(files, list) else files


# --------------------------------------------------------------------------- rendered files


@dataclass(frozen=True, slots=True)
class Mounted:
    """A file that a service sees: its text, and the ``index`` of its mount in ``volumes``.

    ``inside``: the mount is of a directory above the file.
    """

    text: str
    index: int
    inside: bool
    read_only: bool


def mounted(service: str, volumes: list[Any], path: str) -> Mounted:
    """Read the file that is mounted at ``path`` of a container; ``volumes`` hold absolute host paths.

    Raises InputError, which says what to add, where nothing is mounted there; FileError where it cannot be read.
    """
    closest: tuple[int, str, str, bool] | None = None
    for index, mount in enumerate(volumes):
        source, target, read_only = mount_parts(mount)
        inside = path.startswith(target.rstrip("/") + "/")
        if source and (path == target or inside) and (closest is None or len(target) > len(closest[2])):
            closest = (index, source, target, read_only)
    if closest is None:
        name = posixpath.basename(path)
        raise InputError(
            f"{service}: a tuned parameter is set in {path}, and the compose file mounts no such file; "
            f"add `volumes: [./{name}:{path}:ro]` to the service, or hold the parameter with `fixed: {{...: default}}`"
        )
    index, source, target, read_only = closest
    host_path = Path(source.replace("$$", "$"), posixpath.relpath(path, target)) if path != target else Path(source)
    try:
        text = read_bytes(host_path).decode()
    except FileError as error:
        raise FileError(host_path, "", error.found, f"the text file that {service} sees as {path}") from None
    except UnicodeDecodeError:
        raise FileError(host_path, "", "not UTF-8 text", f"the text file that {service} sees as {path}") from None
    return Mounted(text.replace("\r\n", "\n").replace("\r", "\n"), index, path != target, read_only)


def mount_parts(mount: Any) -> tuple[str, str, bool]:
    """Split an entry of ``volumes`` into (host path or empty, path in the container, read-only)."""
    if isinstance(mount, dict):
        source = str(mount.get("source", "")) if mount.get("type") == "bind" else ""
        return source, str(mount.get("target", "")), bool(mount.get("read_only"))
    source, separator, rest = str(mount).partition(":")
    if not separator:
        return "", source, False  # an anonymous volume
    target, _, mode = rest.partition(":")
    return (source if source.startswith("/") else ""), target, "ro" in mode.split(",")


def remounted(volumes: list[Any], file: Mounted, service: str, path: str) -> tuple[list[Any], str]:
    """Mount the rendered file instead of ``file``; return ``volumes`` and its name below the deployment's directory."""
    name = f"{RENDERED}/{service}/{path.strip('/').replace('/', '-')}"
    if file.inside:
        return [*volumes, f"./{name}:{path}" + (":ro" if file.read_only else "")], name
    original = volumes[file.index]
    if isinstance(original, dict):
        replacement: Any = {**original, "source": f"./{name}"}
    else:
        replacement = f"./{name}:" + str(original).partition(":")[2]
    return [*volumes[: file.index], replacement, *volumes[file.index + 1 :]], name


def _with_key(text: str, edit: Edit, value: Value, shown: str, complain: Callable[[str], InputError]) -> str:
    """Put a value at its key path."""
    if edit.unless is not None and type(edit.unless) is type(value) and edit.unless == value:
        return text
    string = edit.line != "{value}" or isinstance(value, str)
    try:
        return with_value(text, edit.format, edit.key, edit.line.replace("{value}", shown), string=string)
    except NoPlace as reason:
        raise complain(f"{edit.path} has no place for it: {reason}") from None


def plain_line(pattern: str) -> str:
    """Return a line of the kind that a pattern matches, for messages: ``events {`` of ``^\\s*events\\s*\\{``."""
    text = re.sub(r"\([^()]*\)[?*]|\(\\s\|\$\)", "", pattern.strip("^$"))  # what may be missing
    text = re.sub(r"\\s[*+]?", " ", text)
    text = re.sub(r"\\S\+|\[\^[^\]]*\][*+]|\.[*+]", "...", text)
    text = re.sub(r"\((?:\?:)?([^|()]*)(?:\|[^()]*)?\)", r"\1", text)  # the first of several
    text = re.sub(r"(.|\[[^\]]*\])\?", "", text)
    return " ".join(re.sub(r"\\(.)", r"\1", text).split())


def fitting(text: str, edit: Edit) -> str:
    """Return a file's text in a form whose lines an edit fits: with one statement on a line where they share lines."""

    def fits(lines: list[str]) -> bool:
        return any(re.search(edit.pattern, line) or (edit.after and re.search(edit.after, line)) for line in lines)

    if "{" not in text or fits(text.splitlines()):
        return text
    apart = one_statement_a_line(text)
    return apart if fits(apart.splitlines()) else text


def one_statement_a_line(text: str) -> str:
    """Put each statement of a file of blocks in braces (as nginx's) on a line of its own; comments stay as they are."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        for piece in _STATEMENT.findall(line.strip()):
            part = piece.strip()
            if part:
                depth -= part.startswith("}")
                lines.append("    " * max(depth, 0) + part)
                depth += part.endswith("{")
    return "\n".join(lines) + "\n"


def edited(text: str, edit: Edit, value: Value, shown: str, complain: Callable[[str], InputError]) -> str:
    """Apply one edit to ``text``.  Raises the error of ``complain`` where no line matches ``after``."""
    if edit.key:
        return _with_key(text, edit, value, shown, complain)
    text = fitting(text, edit)
    lines = text.splitlines()
    pattern, line = re.compile(edit.pattern), edit.line.replace("{value}", shown)
    matching = any(pattern.search(old) for old in lines)
    if not matching and edit.after and not any(re.search(edit.after, old) for old in lines):
        wanted = plain_line(edit.after)
        raise complain(f"{edit.path} has no line {wanted!r}, after which {edit.line.strip()!r} belongs")
    if edit.unless is not None and type(edit.unless) is type(value) and edit.unless == value:
        return text
    if matching:
        lines = [line if pattern.search(old) else old for old in lines]
    elif edit.after:
        lines = [new for old in lines for new in ((old, line) if re.search(edit.after, old) else (old,))]
    else:
        lines.append(line)
    return "\n".join(lines) + "\n"
