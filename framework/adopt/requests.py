"""Requests of a workload, read from what the user has: an OpenAPI document, an access log, a HAR file, a load script.

A source says which requests there are, and where it can how often each is made.  What its format cannot say (values
that change from request to request, log-in) is left to the person.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from framework.config.reading import read_text
from framework.errors import FieldError, FileError

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
MOST = 64  # kinds of requests of a workload
_ASSETS = re.compile(r"\.(css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|woff2?|ttf|eot)$", re.IGNORECASE)
_LOG = re.compile(r'"(?P<method>[A-Z]+) (?P<target>\S+) HTTP/[\d.]+"\s+(?P<status>\d{3})?')
_URL = re.compile(r"""["'`](?P<url>https?://[^"'`\s]+|/[^"'`\s]*)["'`]""")
_CALL = re.compile(r"""\.(?P<method>get|head|post|put|patch|del|delete)\(\s*["'`](?P<url>[^"'`]+)["'`]""")
_LUA = re.compile(r"""wrk\.format\(\s*(?:"(?P<method>[A-Z]+)"|nil)\s*,\s*"(?P<path>[^"]+)\"""")
_LUA_PATH = re.compile(r"""wrk\.path\s*=\s*"(?P<path>[^"]+)\"""")
_LUA_METHOD = re.compile(r"""wrk\.method\s*=\s*"(?P<method>[A-Z]+)\"""")
_VEGETA = re.compile(r"^(?P<method>[A-Z]+)\s+(?P<url>\S+)", re.M)


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of request of a workload, with its share."""

    name: str
    method: str
    path: str
    weight: float = 1.0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    follow: bool = False  # redirects


def requests_of(source: str) -> tuple[Request, ...]:
    """Read ``FORMAT:FILE``.  Raises FieldError for an unknown format, FileError for a file without requests."""
    kind, separator, name = source.partition(":")
    if not separator or kind not in SOURCES:
        raise FieldError("from", source, ", ".join(f"{known}:FILE" for known in SOURCES))
    path = Path(name)
    text = read_text(path)
    try:
        merged = _merged(SOURCES[kind](text))
    except (ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError, SyntaxError) as error:
        raise FileError(path, "", f"no {kind} file ({error})", f"a file of {kind}") from None
    if not merged:
        raise FileError(path, "", "no requests", f"a file of {kind} with requests")
    return merged


def _merged(requests: Iterable[Request]) -> tuple[Request, ...]:
    """Return each kind of request once, with the sum of its weights and a name of its own; the most frequent ones."""
    weights: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], Request] = {}
    for request in requests:
        parts = urlsplit(request.path)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if request.method not in METHODS or not path.startswith("/") or "$" in path:
            continue
        key = request.method, path
        weights[key] += request.weight  # type: ignore[assignment]  # a Counter's sums may be real
        first.setdefault(key, replace(request, path=path))
    names: set[str] = set()
    kept = []
    for key, weight in weights.most_common(MOST):
        name = request_name(*key)
        while name in names:
            name += "-2"
        names.add(name)
        kept.append(replace(first[key], name=name, weight=round(float(weight), 6)))
    return tuple(kept)


def request_name(method: str, path: str) -> str:
    """Return a short name of a request: ``post-cart`` of POST /cart."""
    words = "-".join(re.findall(r"[A-Za-z0-9]+", path.partition("?")[0])) or "front-page"
    return (words if method == "GET" else f"{method}-{words}").lower()[:60]


def _openapi(text: str) -> Iterator[Request]:
    """Read the operations of an OpenAPI or Swagger document, JSON or YAML; parameters stand at their examples or 1."""
    document = _json_or_yaml(text)
    base = str(document.get("basePath", "") or "").rstrip("/")
    servers = document.get("servers") or []
    if servers:
        base = urlsplit(str(servers[0].get("url", ""))).path.rstrip("/")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method.upper() in METHODS:
                parameters = [*(operations.get("parameters") or []), *(operation.get("parameters") or [])]
                body = _body(operation)
                headers = {"Content-Type": "application/json"} if body else {}
                yield Request("", method.upper(), base + _with_examples(path, parameters), headers=headers, body=body)


def _with_examples(path: str, parameters: Iterable[Mapping[str, Any]]) -> str:
    query = []
    for parameter in parameters:
        name = str(parameter.get("name", ""))
        schema = parameter.get("schema") or {}
        example = parameter.get("example", schema.get("example", schema.get("default", 1)))
        if parameter.get("in") == "path":
            path = path.replace(f"{{{name}}}", str(example))
        elif parameter.get("in") == "query" and parameter.get("required"):
            query.append(f"{name}={example}")
    path = re.sub(r"\{[^}]*\}", "1", path)
    return path + (f"?{'&'.join(query)}" if query else "")


def _body(operation: Mapping[str, Any]) -> str:
    content = ((operation.get("requestBody") or {}).get("content") or {}).get("application/json") or {}
    example = content.get("example", (content.get("schema") or {}).get("example"))
    return json.dumps(example) if example is not None else ""


def _json_or_yaml(text: str) -> Any:
    if text.lstrip().startswith("{"):
        return json.loads(text)
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(text)


def _access_log(text: str) -> Iterator[Request]:
    """Read requests of an access log in the common or combined format; pages, not their pictures and scripts."""
    for match in _LOG.finditer(text):
        path = match["target"].partition("?")[0]
        if not _ASSETS.search(path) and not (match["status"] or "200").startswith(("3", "4", "5")):
            yield Request("", match["method"], match["target"])


def _har(text: str) -> Iterator[Request]:
    """Read the requests of a HAR file to the host that most of them went to."""
    entries = [entry["request"] for entry in json.loads(text)["log"]["entries"]]
    hosts = Counter(urlsplit(entry["url"]).netloc for entry in entries)
    for entry in entries:
        url = urlsplit(entry["url"])
        if url.netloc == hosts.most_common(1)[0][0] and not _ASSETS.search(url.path):
            kept = {h["name"]: h["value"] for h in entry.get("headers", []) if h["name"].lower() == "content-type"}
            body = str((entry.get("postData") or {}).get("text") or "")
            yield Request("", entry["method"], entry["url"], headers=kept, body=body)


def _k6(text: str) -> Iterator[Request]:
    """Read the calls of a k6 script whose address is written out; a template's ``${BASE}`` in front is left out."""
    for match in _CALL.finditer(text):
        url = re.sub(r"^\$\{[^}]*\}", "", match["url"])
        yield Request("", {"del": "DELETE"}.get(match["method"], match["method"].upper()), url)


def _locust(text: str) -> Iterator[Request]:
    """Read the calls of a Locust file (``self.client.get("/path")``), each with the weight of its task."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            weight = _task_weight(node)
            for call in ast.walk(node):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr.upper() in METHODS
                    and call.args
                ):
                    path = _path_of(call.args[0])
                    if path:
                        yield Request("", call.func.attr.upper(), path, weight)


def _task_weight(function: ast.FunctionDef | ast.AsyncFunctionDef) -> float:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "task" and decorator.args:
            value = decorator.args[0]
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                return float(value.value)
    return 1.0


def _path_of(node: ast.expr) -> str:
    """Return a path that is written out; a formatted part of it stands as 1."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
    return ""


def _wrk2(text: str) -> Iterator[Request]:
    """Read the requests of a wrk or wrk2 script in Lua whose paths are written out."""
    method = _LUA_METHOD.search(text)
    for match in _LUA.finditer(text):
        yield Request("", match["method"] or (method["method"] if method else "GET"), match["path"])
    for match in _LUA_PATH.finditer(text):
        yield Request("", method["method"] if method else "GET", match["path"])


def _jmeter(text: str) -> Iterator[Request]:
    """Read the HTTP samplers of a JMeter test plan."""
    for sampler in ElementTree.fromstring(text).iter("HTTPSamplerProxy"):
        values = {
            str(child.get("name")): child.text or "" for child in sampler if child.tag in ("stringProp", "boolProp")
        }
        path = values.get("HTTPSampler.path", "/")
        yield Request("", values.get("HTTPSampler.method", "GET"), path if path.startswith("/") else f"/{path}")


def _vegeta(text: str) -> Iterator[Request]:
    """Read Vegeta's targets: a method and an address on a line."""
    for match in _VEGETA.finditer(text):
        yield Request("", match["method"], match["url"])


def _jaeger(text: str) -> Iterator[Request]:
    """Read the requests of root spans of a Jaeger export: the tags http.method and http.target or http.url."""
    for trace in json.loads(text)["data"]:
        for span in trace["spans"]:
            if span.get("references"):
                continue
            tags = {tag["key"]: str(tag["value"]) for tag in span.get("tags") or []}
            method = tags.get("http.method") or tags.get("http.request.method")
            target = tags.get("http.target") or tags.get("url.path") or tags.get("http.url") or tags.get("url.full")
            if method and target:
                yield Request("", method, target)


SOURCES: Mapping[str, Callable[[str], Iterator[Request]]] = {
    "openapi": _openapi,
    "access-log": _access_log,
    "har": _har,
    "k6": _k6,
    "locust": _locust,
    "wrk2": _wrk2,
    "jmeter": _jmeter,
    "vegeta": _vegeta,
    "jaeger": _jaeger,
}
