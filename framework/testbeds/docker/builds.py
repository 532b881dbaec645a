"""Images built from an application's own sources, tagged by a hash of all that they are built from.

Docker's own command builds them.  One to which the compose file gives a name is built under that name, only where it
is not here and cannot be pulled, and then once.  They bear labels, by which `tailor clean --images` removes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docker.utils import exclude_paths

from framework.config.reading import open_regular, read_text
from framework.errors import InputError, MissingPrerequisite
from framework.model import Application
from framework.ports.builds import BUILT
from framework.ports.testbed import Progress
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner

OWNER = Owner("tailor.built", "true")
BUILT_AS = "tailor.built-as"  # label: the name that an image was built under
LIMIT_S = 3600.0
ALLOWED = frozenset({"context", "dockerfile", "args", "target", "labels", "no_cache", "pull", "platforms", "tags"})
LAST_LINES = 25


@dataclass(frozen=True, slots=True)
class Build:
    """An image to build: the directory of its sources, its Dockerfile, build arguments and the wanted stage.

    ``ignored``: paths below the context that are no sources.
    """

    context: Path
    dockerfile: str = "Dockerfile"
    arguments: tuple[tuple[str, str], ...] = ()
    target: str = ""
    ignored: tuple[Path, ...] = ()

    @classmethod
    def of(cls, application: Application, service: str) -> Build:
        """Read a service's ``build``.  Raises InputError for what Tailor does not build with."""
        build = application.compose["services"][service]["build"]
        given = {"context": build} if isinstance(build, str) else dict(build)
        for key, value in given.items():
            if key not in ALLOWED and value and not key.startswith("x-"):
                raise InputError(
                    f"services.{service}.build.{key}: found {value!r}; allowed: {', '.join(sorted(ALLOWED))} "
                    "(build the image yourself and name it in `image`)"
                )
        context = str(given.get("context") or ".").replace("$$", "$")
        if "://" in context or context.startswith(("git@", "github.com/")):
            raise InputError(
                f"services.{service}.build.context: found {context!r}; allowed: a directory of this machine"
            )
        directory = Path(os.path.normpath(application.base / context))
        arguments = given.get("args") or {}
        pairs = (
            arguments.items()
            if isinstance(arguments, Mapping)
            else (str(argument).partition("=")[::2] for argument in arguments)
        )
        return cls(
            directory,
            str(given.get("dockerfile") or "Dockerfile"),
            tuple(sorted((str(name), str(value).replace("$$", "$")) for name, value in pairs if value is not None)),
            str(given.get("target") or ""),
            tuple(path for path in application.own_files if path != directory and path.is_relative_to(directory)),
        )

    def is_inside(self, roots: Sequence[Path]) -> bool:
        """Return whether its sources lie below one of these directories."""
        return any(self.context.resolve().is_relative_to(root.resolve()) for root in roots)

    def digest(self) -> str:
        """Hash the definition and the files of the context, without .dockerignore's and ``ignored``; 12 hex digits."""
        if not self.context.is_dir():
            raise InputError(f"{self.context}: found no such directory; allowed: the sources of an image")
        digest = hashlib.sha256(json.dumps([self.dockerfile, self.arguments, self.target]).encode())
        for name in sorted(exclude_paths(str(self.context), self._patterns(), self.dockerfile)):
            path = self.context / name
            if any(path.is_relative_to(other) for other in self.ignored):
                continue
            if path.is_symlink():
                digest.update(f"{name} -> {path.readlink()}\n".encode())
            elif path.is_file():
                mode = path.stat().st_mode & 0o111
                digest.update(f"{name} {mode} {path.stat().st_size}\n".encode())
                with open_regular(path, path.stat().st_size + 1) as file:
                    while part := file.read(1 << 20):
                        digest.update(part)
        return digest.hexdigest()[:12]

    def _patterns(self) -> list[str]:
        for name in (f"{self.dockerfile}.dockerignore", ".dockerignore"):
            path = self.context / name
            if path.is_file():
                lines = (line.strip() for line in read_text(path).splitlines())
                return [line for line in lines if line and not line.startswith("#")]
        return []

    def command(self, image: str) -> list[str]:
        """Return the command that builds the image."""
        # --force-rm: of a step that fails no container stays.
        words = ["docker", "build", "--force-rm", "-t", image, "--label", str(OWNER), "--label", f"{BUILT_AS}={image}"]
        words += ["-f", str(self.context / self.dockerfile)]
        for name, value in self.arguments:
            words += ["--build-arg", f"{name}={value}"]
        return [*words, *(("--target", self.target) if self.target else ()), str(self.context)]


def is_built(image: str) -> bool:
    """Return whether an image's name is one that Tailor gave it, because the compose file names none."""
    return image.startswith(BUILT)


class DockerBuilds:
    """Names images by their content, and removes them; implements ``framework.ports.builds.Builds``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine()

    def image_name(self, application: Application, service: str) -> str:
        """Return ``tailor-built/<application>-<service>:<hash>``; see the port."""
        return f"{BUILT}{application.name}-{service}".lower() + f":{Build.of(application, service).digest()}"

    def kept(self) -> Sequence[str]:
        """Return the names of the images that were built here; see the port."""
        # An image that was built on another has its labels too: it is one of these only under the name in the label.
        return sorted(
            name
            for image in self._engine.labelled.images(str(OWNER))
            for name in image.get("RepoTags") or ()
            if name.startswith(BUILT) or name == (image.get("Labels") or {}).get(BUILT_AS)
        )

    def remove(self) -> Sequence[str]:
        """Remove those that no container uses; see the port."""
        return [name for name in self.kept() if self._engine.labelled.remove(name, OWNER)]


def build_missing(wanted: Mapping[str, tuple[str, Build]], roots: Sequence[Path], progress: Progress) -> None:
    """Build images: service -> (name, build).

    ``roots``: directories whose files may be built from.
    Raises InputError for sources elsewhere, MissingPrerequisite, with the last lines, where a build fails.
    """
    for service, (image, build) in wanted.items():
        if not build.is_inside(roots):
            raise InputError(
                f"services.{service}.build: found {str(build.context)!r}; allowed: a directory below "
                f"{', '.join(map(str, roots))}"
            )
        progress(f"building the image of {service}")
        try:
            ended = subprocess.run(
                build.command(image), capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except OSError as error:
            raise MissingPrerequisite(f"docker cannot be run: {error.strerror}", "install Docker's command") from error
        except subprocess.TimeoutExpired:
            raise MissingPrerequisite(
                f"the image of {service} was not built within {LIMIT_S:g} s", f"build it yourself: {build.context}"
            ) from None
        if ended.returncode != 0:
            log = "\n".join(f"  | {line}" for line in (ended.stdout + ended.stderr).splitlines()[-LAST_LINES:])
            raise MissingPrerequisite(f"the image of {service} cannot be built:\n{log}", f"mend {build.context}")
