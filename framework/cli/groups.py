"""Groups of commands of which one is the group itself: `tailor guard APP` is `tailor guard run APP`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class RunByDefault(TyperGroup):
    """Words that are no command of the group belong to its command ``run``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = (*self.commands, "--help")
        return super().parse_args(ctx, ["run", *args] if args and args[0] not in known else args)


class StudyByDefault(TyperGroup):
    """Words that are no command of the group belong to its command ``study``: `tailor export STUDY`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = (*self.commands, "--help")
        return super().parse_args(ctx, ["study", *args] if args and args[0] not in known else args)
