"""Names that Kubernetes accepts, and text that it passes on unchanged."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

LONGEST = 63
# A name of a Service: RFC 1035, section 2.3.1, which begins with a letter.
_LABEL = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_EXPANDED = re.compile(r"\$+(?=\()|\$\$+")


def is_label(name: str) -> bool:
    """Return whether a name is a DNS label that begins with a letter, in lower case."""
    return _LABEL.fullmatch(name) is not None


def label(name: str) -> str:
    """Return the closest DNS label: ``user-db`` of ``User_DB``; a long name ends with a hash of all of it."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not text or not text[0].isalpha():
        text = f"s-{text}".rstrip("-")
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_variable(name: str) -> bool:
    """Return whether every version of Kubernetes takes this as the name of an environment variable."""
    return _VARIABLE.fullmatch(name) is not None


def literal(text: str) -> str:
    """Return text that the kubelet turns into ``text``: it fills in ``$(NAME)`` and makes one dollar of ``$$``.

    It does so in commands, arguments and values of variables (Kubernetes, "Define Dependent Environment Variables").
    """
    return _EXPANDED.sub(lambda match: match[0] * 2, text)


@dataclass(slots=True)
class Names:
    """Names of one kind of object, each given once."""

    given: set[str] = field(default_factory=set)

    def new(self, wanted: str) -> str:
        """Return a label close to ``wanted`` that nothing else has."""
        first, name, number = label(wanted), label(wanted), 1
        while name in self.given:
            number += 1
            name = f"{first[: LONGEST - 4].rstrip('-')}-{number}"
        self.given.add(name)
        return name
