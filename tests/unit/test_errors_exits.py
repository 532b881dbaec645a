"""Every error has an exit code, and the tree at the top of errors.py is the tree."""

from __future__ import annotations

import inspect
import re

from framework import errors
from framework.cli.exits import EXIT_CODES, exit_code


def classes() -> list[type[errors.TailorError]]:
    kinds = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.TailorError)]
    return [c for c in kinds if c is not errors.TailorError]


def test_every_error_has_an_exit_code() -> None:
    for kind in classes():
        assert any(issubclass(kind, covered) for covered, _ in EXIT_CODES), kind
        assert exit_code(kind.__new__(kind)) not in (0, 1)


def test_the_drawn_tree_names_every_class() -> None:
    drawn = set(re.findall(r"[A-Z]\w+(?=\s{2,}|$|\n)", errors.__doc__ or ""))
    assert {c.__name__ for c in classes()} <= drawn


def test_every_error_says_what_to_do_next() -> None:
    assert all(c.__doc__ for c in classes())
