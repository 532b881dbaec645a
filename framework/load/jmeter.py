"""Apache JMeter: threads that wait for replies, a closed loop, https://jmeter.apache.org/usermanual.

Samples are read from its results file (JTL), CSV or XML: the start [ms since the epoch], the elapsed time [ms], label,
response code, success.  Both are whole milliseconds, which bounds how well small latencies are known.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from framework.errors import InputError, LoadFailed
from framework.load.external import registered
from framework.load.invocation import TAIL_S, Finished, Invocation, Reported, Task, number, whole_seconds
from framework.load.request_rows import RequestRows
from framework.model import EXTERNAL_GENERATORS

SAMPLES, LOG = "jmeter.jtl", "jmeter.log"
PROPERTIES = {
    "jmeter.save.saveservice.output_format": "csv",
    "jmeter.save.saveservice.print_field_names": "true",
    "jmeter.save.saveservice.timestamp_format": "ms",
    "jmeter.save.saveservice.default_delimiter": ",",
    "sampleresult.timestamp.start": "true",
}
NEEDED = b"tailor.seconds"
XML_NAMES = {"ts": "timeStamp", "t": "elapsed", "lb": "label", "rc": "responseCode", "s": "success"}


@registered
class JMeter:
    """Runs ``jmeter -n``."""

    name = "jmeter"

    def invocation(self, task: Task) -> Invocation:
        """Return the command.  Raises InputError for a plan that would not end."""
        if NEEDED not in task.text:
            raise InputError(
                f"load.script: {task.load.script} does not use ${{__P(tailor.seconds)}}, so that it would not end in "
                "time; allowed: a plan whose thread groups last that long (scheduler, Duration)"
            )
        seconds = whole_seconds(task.seconds + TAIL_S)
        host, _, port = task.target.partition("://")[2].partition(":")
        scheme = task.target.partition("://")[0]
        properties = {
            **PROPERTIES,
            "tailor.seconds": str(seconds),
            "tailor.users": str(task.load.users),
            "tailor.rate": number(task.plan.rate_rps),
            "tailor.rate_per_minute": number(60 * task.plan.rate_rps),
            "tailor.protocol": scheme,
            "tailor.host": host,
            "tailor.port": port or ("443" if scheme == "https" else "80"),
        }
        return Invocation(
            (
                *(task.load.command or EXTERNAL_GENERATORS[self.name].command),
                "-n", "-t", task.script, "-l", f"{task.results}/{SAMPLES}", "-j", f"{task.results}/{LOG}",
                *(f"-J{name}={value}" for name, value in properties.items()),
            ),
            seconds,
            outputs=(SAMPLES,),
        )  # fmt: skip

    def read(self, task: Task, finished: Finished) -> Reported:
        """Read the samples."""
        return Reported(samples_of(finished.results / SAMPLES), "sent")


def samples_of(path: Path) -> RequestRows:
    """Read a results file, CSV with a header or XML.  Raises LoadFailed."""
    rows = RequestRows()
    try:
        with path.open("rb") as file:
            is_xml = file.read(256).lstrip().startswith(b"<")
        for sample in _from_xml(path) if is_xml else _from_csv(path):
            start_ns = int(sample["timeStamp"]) * 10**6
            end_ns = start_ns + int(sample["elapsed"]) * 10**6
            code = sample["responseCode"]
            status = int(code) if code.isdigit() and code.isascii() else 0
            ok = sample["success"].lower() == "true"
            # A sampler without a status, such as one of a database, has a reply where it succeeded.
            answered = status or (200 if ok else 0)
            rows.add(start_ns, end_ns if answered else 0, answered, ok, sample["label"], code if not status else "")
    except KeyError as error:
        raise LoadFailed(f"{path.name} has no column {error}: JMeter's settings save too little") from error
    except (OSError, ValueError, LookupError, OverflowError, csv.Error, ElementTree.ParseError) as error:
        raise LoadFailed(f"{path.name} cannot be read: {error}") from error
    return rows


def _from_csv(path: Path) -> Iterator[Mapping[str, str]]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file):
            if None in row or None in row.values():
                raise ValueError(f"a row of another length than the header: {row}")
            yield row


def _from_xml(path: Path) -> Iterator[Mapping[str, str]]:
    """Yield the samples at the top; samples inside others (redirects, embedded resources) are parts of them."""
    depth, root = 0, None
    for event, element in ElementTree.iterparse(path, ("start", "end")):
        if event == "start":
            depth += 1
            root = element if root is None else root
            continue
        depth -= 1
        if depth == 1 and element.tag in ("sample", "httpSample"):
            yield {XML_NAMES[name]: value for name, value in element.attrib.items() if name in XML_NAMES}
        if depth <= 1 and root is not None:
            root.clear()  # what was read is not kept
