"""Commands about what is kept: export, import, forget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framework.cli import terminal
from framework.cli.groups import StudyByDefault
from framework.cli.session import opened, output, print_json
from framework.config.settings import Retention
from framework.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        cls=StudyByDefault,
        no_args_is_help=True,
        help="Write a whole study as one file: JSON to import again, Parquet to analyse; without secrets.",
    )
    app.add_typer(group, name="export")
    group.command("study")(export)
    group.command("k8s")(export_k8s)
    app.command("import")(import_)
    app.command()(forget)


def export(
    study: Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")],
    path: Annotated[Path | None, typer.Option("--output", help="File to write [default: STUDY.zip].")] = None,
    as_json: Json = False,
) -> None:
    """Write a whole study as one file: JSON to import again, Parquet to analyse; without secrets."""
    tailor = opened()
    exported = tailor.store.get(study)
    path = path or Path(f"{exported.id}.zip")
    data = tailor.sharing.pack(exported.id)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    print_json({"study": exported.id, "file": path, "bytes": len(data)}) if as_json else output.print(
        f"{path} ({len(data) / 1e6:.1f} MB)", soft_wrap=True
    )


def export_k8s(
    study: Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")],
    directory: Annotated[Path, typer.Option("--output", help="Directory to write, new or empty.")],
    storage: Annotated[str, typer.Option(help="Size of each volume's claim: compose knows none.")] = "10Gi",
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Leave out, and say, what a cluster cannot do; else it is refused.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a study's best configuration as Kubernetes manifests, and what has no counterpart there in plain words."""
    written = opened().results.export_kubernetes(study, directory, storage=storage, leave_out=leave_out)
    if as_json:
        print_json({"directory": directory, "files": written})
    else:
        output.print("\n".join(str(directory / name) for name in written), soft_wrap=True)


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What `tailor export` wrote.")],
    application: Annotated[
        Path | None, typer.Option(help="Directory of the application here, to resume a study that was stopped.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take in a study that was exported elsewhere."""
    study = opened().sharing.unpack(path, application)
    print_json({"study": study.id}) if as_json else output.print(f"study {study.id}: tailor show {study.id}")


def forget(
    samples: Annotated[
        str | None, typer.Option(help="Drop single latencies and traces of studies that rest for longer: 30d.")
    ] = None,
    studies: Annotated[str | None, typer.Option(help="Remove studies that rest for longer: 365d.")] = None,
    as_json: Json = False,
) -> None:
    """Remove what is old, and large things that no study refers to; studies that run or wait are not touched."""
    retention = Retention(
        None if samples is None else terminal.seconds("--samples", samples),
        None if studies is None else terminal.seconds("--studies", studies),
    )
    forgotten = opened().keeper.forget(retention)
    if as_json:
        print_json(forgotten)
    else:
        output.print(
            f"{len(forgotten.studies)} studies removed, the samples of {forgotten.samples} windows dropped, "
            f"{forgotten.artefacts} files freed"
        )
