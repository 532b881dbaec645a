"""Origin of a run: digests of the optimizer's code and of the problem.  Stored runs are valid while both are equal."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path

import numpy as np

from optimizer.benchmark.problem import Problem
from optimizer.sampling import uniform

TRIED = 3  # configurations in addition to the default
DIGITS = 6  # of a value
_DISTRIBUTIONS = cache(packages_distributions)  # it reads the files of all distributions


def code_of(kind: type) -> str:
    """Return a digest of a class's code, without comments.

    It covers the class's module, all direct and indirect imports from its own package and from this one, and the
    versions of all other libraries that these modules import.
    """
    packages = {kind.__module__.partition(".")[0], __name__.partition(".")[0]}
    parts, libraries, queue = {}, set(), [kind.__module__]
    while queue:
        module = queue.pop()
        if module in parts:
            continue
        if module.partition(".")[0] not in packages:
            libraries.add(module.partition(".")[0])
        elif (path := _source(module)) is not None:
            if path.suffix != ".py":  # compiled
                parts[module] = hashlib.sha256(path.read_bytes()).hexdigest()
                continue
            tree = ast.parse(path.read_text())
            parts[module] = _code_of_tree(tree)
            queue += _imported(tree, module, package=path.name == "__init__.py")
    return _digest([kind.__qualname__, *(f"{name}\n{parts[name]}" for name in sorted(parts)), *_versions(libraries)])


def identity_of(problem: Problem) -> str:
    """Return a digest of a problem: its space, and its answers for the default and a few other configurations."""
    rng = np.random.default_rng(0)
    tried = [problem.space.default(), *(uniform(problem.space, rng) for _ in range(TRIED))]
    truths = [problem.truth(configuration) for configuration in tried]
    values = [
        "fails" if truth is None else f"{truth:.{DIGITS}g} {problem.noise(configuration):.{DIGITS}g}"
        for configuration, truth in zip(tried, truths, strict=True)
    ]
    return _digest([problem.name, problem.space.content_hash, *values])


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _source(module: str) -> Path | None:
    """Return the file of a module; None for a name that is no module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _code_of_tree(tree: ast.Module) -> str:
    """Return the text of a module without comments, docstrings and layout."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _imported(tree: ast.Module, module: str, *, package: bool) -> Iterator[str]:
    """Yield the imports of a module, at any depth: modules, and names that may be modules.

    A call of ``library`` with a name is an import (see ``optimizer.library_optimizer``).
    """
    inside = module if package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), inside) if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "library":
            named = node.args[0] if node.args else None
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                yield named.value


def _versions(libraries: set[str]) -> list[str]:
    known = _DISTRIBUTIONS()
    outside = sorted(libraries - sys.stdlib_module_names)
    return [
        f"{name} {', '.join(version(distribution) for distribution in sorted(set(known.get(name, ()))))}"
        for name in outside
    ]
