"""OpenTelemetry agents, fetched once from the registries of their languages and kept below TAILOR_HOME/agents.

An agent is complete or not there: it is made in a directory beside its own and renamed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from framework.compose.agents import TARGET, VERSIONS, WRAPPER, directory_name
from framework.errors import MissingPrerequisite
from framework.model import Application
from framework.model.application import Agent

JAVA = "https://repo1.maven.org/maven2/io/opentelemetry/javaagent/opentelemetry-javaagent"
JAVA_SHA256 = "d94e9fc648cab37e540571352937acc06b8014182ddbd2d93a6c08641c84e48e"
FETCH_S = 300.0

PYTHON_PACKAGES = (
    f"opentelemetry-distro=={VERSIONS['python']}",
    "opentelemetry-exporter-otlp-proto-http==1.38.0",
    *(
        f"opentelemetry-instrumentation-{name}=={VERSIONS['python']}"
        for name in (
            "aiohttp-client", "asgi", "celery", "django", "fastapi", "flask", "httpx", "mysqlclient", "psycopg",
            "psycopg2", "pymongo", "pymysql", "redis", "requests", "sqlalchemy", "starlette", "urllib", "urllib3",
            "wsgi",
        )
    ),
)  # fmt: skip

SITE = f"""import sys

sys.path.append({TARGET!r})  # behind the application's own packages
from opentelemetry.instrumentation.auto_instrumentation import initialize

initialize()
"""

Progress = Callable[[str], None]


def ensure_agents(application: Application, progress: Progress) -> None:
    """Fetch the agents of an application that are not here yet.  Raises MissingPrerequisite."""
    languages = application.tracing.instrument if application.tracing is not None else {}
    for service, directory in application.agents.items():
        if not directory.is_dir():
            fetch(languages[service], directory, progress)


def missing_agents(application: Application) -> Sequence[str]:
    """Return the names of the agents that a study has to fetch first."""
    return sorted({directory.name for directory in application.agents.values() if not directory.is_dir()})


def fetch(language: Agent, directory: Path, progress: Progress, fetcher: Callable[[Path], None] | None = None) -> None:
    """Fetch an agent into a directory that is not there yet.  Raises MissingPrerequisite.

    ``fetcher``: puts its files into a directory; None: the one of the language.
    """
    progress(f"fetching the OpenTelemetry agent {directory_name(language)} into {directory}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    try:
        (fetcher or _FETCHERS[language])(made)
        made.chmod(0o755)  # services may run as any user
        made.rename(directory)
    except OSError as error:
        if not directory.is_dir():  # else another process has fetched it meanwhile
            raise MissingPrerequisite(f"{directory}: {error.strerror or error}", "make room there") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def fetch_java(directory: Path, registry: str = JAVA) -> None:
    """Fetch the agent for Java, whose digest is known.  Raises MissingPrerequisite, OSError."""
    version = VERSIONS["java"]
    url = f"{registry}/{version}/opentelemetry-javaagent-{version}.jar"
    try:
        reply = httpx.get(url, timeout=FETCH_S, follow_redirects=True)
        reply.raise_for_status()
    except httpx.HTTPError as error:
        said = (
            f"{url} answers {error.response.status_code}" if isinstance(error, httpx.HTTPStatusError) else repr(error)
        )
        raise MissingPrerequisite(
            f"the agent for java cannot be fetched: {said}", f"put {url} at {directory.parent}/java-{version}/"
            "opentelemetry-javaagent.jar",
        ) from error  # fmt: skip
    digest = hashlib.sha256(reply.content).hexdigest()
    if digest != JAVA_SHA256:
        raise MissingPrerequisite(f"{url} has the SHA-256 {digest}, not {JAVA_SHA256}", "see who answers there")
    (directory / "opentelemetry-javaagent.jar").write_bytes(reply.content)


def _node(directory: Path) -> None:
    name = f"@opentelemetry/auto-instrumentations-node@{VERSIONS['node']}"
    # The API's own package is a peer of the others, so that npm installs it too.
    command = ["npm", "install", "--prefix", str(directory), "--ignore-scripts", "--no-audit", "--no-fund"]
    _run("node", [*command, name, "@opentelemetry/api@1.9.0"], "install npm (Debian: apt-get install npm)")


def _python(directory: Path) -> None:
    # Wheels without compiled parts only: they fit every Python from 3.9 on, whatever its C library.
    anywhere = ["--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none", "--python-version=3.9"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(directory)]
    _run("python", [*command, *anywhere, *PYTHON_PACKAGES], "install pip for the Python that runs Tailor")
    site = directory / WRAPPER / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text(SITE)


def _run(language: Agent, command: Sequence[str], remedy: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except FileNotFoundError:
        what = f"the agent for {language} is fetched with {command[0]}, which is not here"
        raise MissingPrerequisite(what, remedy) from None
    except subprocess.TimeoutExpired:
        raise MissingPrerequisite(f"the agent for {language} did not come in {FETCH_S:g} s", "try again") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["without a word"]
        raise MissingPrerequisite(f"the agent for {language} cannot be fetched: {said[0][:300]}", remedy)


_FETCHERS: Mapping[Agent, Callable[[Path], None]] = {"java": fetch_java, "node": _node, "python": _python}
