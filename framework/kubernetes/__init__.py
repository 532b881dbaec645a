"""Kubernetes manifests of a compose document: each service in the objects that do the same, and the rest said in words.

Nothing here speaks with a cluster.  ``manifests.manifests_of`` is the way in.
"""

from framework.kubernetes.manifests import Manifests, manifests_of
from framework.kubernetes.said import Note
from framework.kubernetes.sources import Sources

__all__ = ["Manifests", "Note", "Sources", "manifests_of"]
