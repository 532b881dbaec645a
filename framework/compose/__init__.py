"""Application + configuration + placement -> compose documents and the files they mount, as plain data."""

from framework.compose.difference import difference
from framework.compose.hosts import LOCAL, as_designed
from framework.compose.render import render

__all__ = ["LOCAL", "as_designed", "difference", "render"]
