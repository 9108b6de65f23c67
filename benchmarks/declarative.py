"""Manifests of 1,000 and 50,000 entities: how long the provisioner takes, what it asks of the table, its memory.

Lives here: its handler in a process of its own, given what Lambda gives it, against dynoxide, on a table without a
stream; and the CPU of `limits validate`. Never: Lambda itself.
"""

import json
import logging
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import boto3
from attrs import evolve

from zae_limiter import Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.meter import Meter
from zae_limiter.schema.table import create_table_request
from zae_limiter_manifest import Answer, LimitsManifest, Request, next_page, pack, unpack

from .emulator import dynoxide
from .report import Row

TABLE = "zae-limiter-benchmarks"
REGION = "us-east-1"
SIZES = (1_000, 50_000)
APPLY_SECONDS, APPLY_UNITS = 25 / 20_000, 5  # of an entity; a small apply has a fixed part, too
VALIDATE_SECONDS = 6
COMMAND = str(Path(sys.executable).with_name("zae-limiter"))
READS = frozenset(("BatchGetItem", "GetItem", "Query"))
LAMBDA_MB = 512  # what `deploy` gives the provisioner
LAMBDA_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Invocation:
    """What one took: from the payload to the answer, as text both."""

    seconds: float
    requests: Mapping[str, int]
    units: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Provisioner:
    """The process that runs the handler, as the command line asks it."""

    pipe: "Connection[Any, Any]"

    def ask(self, request: Request) -> tuple[Answer, list[Invocation]]:
        """The answer, all its pages."""
        pages: list[Any] = []
        invocations: list[Invocation] = []
        after: str | None = None
        while not pages or after is not None:
            plain = pack(evolve(request, next=after).to_dict())
            self.pipe.send_bytes(json.dumps(plain, separators=(",", ":")).encode())
            page, invocation = self.pipe.recv()
            pages.append(json.loads(page))
            invocations.append(invocation)
            after = next_page(pages[-1])
        return Answer.from_dict(unpack(pages)), invocations

    def finish(self, request: Request) -> list[Invocation]:
        """Ask until nothing remains to be done."""
        answer, invocations = self.ask(request)
        while answer.remaining and answer.plan and answer.plan.changes:
            answer, more = self.ask(request)
            invocations += more
        if answer.errors or answer.remaining:
            raise RuntimeError(f"{request.action}: {answer.remaining} remain, {answer.errors[:3]}")
        return invocations


def measure() -> list[Row]:
    with ExitStack() as stack:
        url = dynoxide(stack)
        create_table(url)
        process = stack.enter_context(provisioner(url))
        rows, invocations = [], []
        for count in SIZES:
            for what, request in _requests(_manifest(count)):
                taken = process.finish(request)
                rows += _rows(f"{count:,} entities, {what}", request, taken, count)
                invocations += taken
        longest, most = max(each.seconds for each in invocations), max(each.peak_mb for each in invocations)
        rows.append(_validate(max(SIZES)))
        rows.append(Row("the longest invocation", longest, "s", at_most=LAMBDA_SECONDS))
        rows.append(Row("memory of the process that runs the handler, at most", most, "MB", at_most=LAMBDA_MB))
        return rows


def _requests(wanted: LimitsManifest) -> Iterator[tuple[str, Request]]:
    yield "plan", Request.of("plan", wanted)
    yield "apply", Request.of("apply", wanted)
    yield "unchanged apply", Request.of("apply", wanted)
    yield "diff", Request.of("diff", wanted)
    yield "export", Request("export", wanted.namespace)


def _rows(what: str, request: Request, taken: list[Invocation], count: int) -> list[Row]:
    requests = sum((Counter(each.requests) for each in taken), Counter())
    reads = sum(count for name, count in requests.items() if name in READS)
    writes = requests.total() - reads
    most_writes = None if what.endswith(", apply") else int(request.action == "apply")
    is_first = request.action == "apply" and "unchanged" not in what and count == max(SIZES)
    seconds = sum(each.seconds for each in taken)
    rows = [
        Row(f"{what}: time", seconds, "s", at_most=APPLY_SECONDS * count if is_first else None),
        Row(f"{what}: requests that read", reads),
        Row(f"{what}: requests that write", writes, at_most=most_writes),
    ]
    if request.action != "apply":
        return rows
    units = sum(each.units for each in taken)
    return [
        *rows,
        Row(f"{what}: units written", units, at_most=APPLY_UNITS * count if is_first else None),
        Row(f"{what}: invocations", len(taken)),
    ]


def _validate(count: int) -> Row:
    """CPU of the command on a file of so many entities."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "limits.yaml")
        path.write_text(json.dumps(_manifest(count).to_dict()))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([COMMAND, "limits", "validate", "--file", str(path)], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Row(f"{count:,} entities: CPU of `limits validate`", seconds, "s", at_most=VALIDATE_SECONDS)


def _manifest(count: int) -> LimitsManifest:
    limits = {"limits": {"rpm": {"capacity": 10}, "tpm": {"capacity": 10_000}}}
    ids = (f"123e4567-e89b-12d3-a456-{number:012d}" for number in range(count))
    entities = {each: {"resources": {"gpt-4": limits}} for each in ids}
    return LimitsManifest.from_dict({"namespace": f"tenant-{count}", "entities": entities})


def create_table(url: str) -> None:
    """Without a stream: the more records one has, the longer a write takes the emulator."""
    request = {name: value for name, value in create_table_request(TABLE).items() if name != "StreamSpecification"}
    client = boto3.client("dynamodb", endpoint_url=url, region_name=REGION)
    client.create_table(**request)
    client.close()
    SyncRepository.over(SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION), Options(stack=TABLE)).close()


@contextmanager
def provisioner(url: str) -> Iterator[Provisioner]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, url), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Provisioner(ours)
    finally:
        ours.close()
        process.join()


def serve(pipe: "Connection[Any, Any]", url: str) -> None:
    """Answer payloads until the other end is closed, each with what it took."""
    from zae_limiter_provisioner import handler
    from zae_limiter_provisioner.table import Table

    logging.disable(logging.INFO)
    meter = Meter()
    table = Table(SyncDynamoDBStore(TABLE, endpoint_url=url, region=REGION, read_timeout=30, meter=meter), TABLE)
    patch.object(handler, "table_of_environment", lambda: table).start()  # the same, but that its requests are counted
    while True:
        try:
            payload = pipe.recv_bytes()
        except EOFError:
            return
        meter.reset()
        begun = time.monotonic()
        page = json.dumps(handler.on_event(json.loads(payload), None))
        seconds = time.monotonic() - begun
        units = meter.write_units + meter.index_units
        pipe.send((page, Invocation(seconds, dict(meter.requests), units, _peak_mb())))


def _peak_mb() -> float:
    """Since this program began; what `getrusage` tells may be of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kilobytes) / 1000
