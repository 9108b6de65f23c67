"""Read a kept trace: from the archive of a stack, or from files."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...connection import Connection
from ...errors import CommandError

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.maintenance import TracePage

OFF: Final = "off"
ENDINGS: Final = (".jsonl.gz", ".jsonl")
ARCHIVE_OUTPUT: Final = "ArchiveBucketName"  # of the stack
READERS: Final = 16
_GZIP: Final = b"\x1f\x8b"

Hours = Iterator[list["TracePage"]]


class Trace(NamedTuple):
    """A trace: ``name`` is for people; ``hours`` yields what there is between two instants, and perhaps more, hour by
    hour. Both raise ``CommandError``.
    """

    name: str
    hours: Callable[[datetime, datetime], Hours]


def open_trace(connection: Connection, repository: "SyncRepository", where: str | None) -> Trace | None:
    """Return the trace in a file or a folder; without ``where``, that which the namespace keeps, if it keeps one."""
    if where == OFF:
        return None
    if where is not None:
        return _in_files(Path(where))
    if connection.file is not None:  # a file has no stream
        return None
    from zae_limiter.maintenance import run, trace_of

    if not run(repository, trace_of(repository.name)):
        return None
    return _in_archive(connection, repository.namespace_id)


def _in_files(path: Path) -> Trace:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.name.endswith(ENDINGS) and each.is_file())
    else:
        files = [path]
    if not files:
        raise CommandError(f"--trace {path}: no file there ends in {' or '.join(ENDINGS)}")
    by_hour: dict[str, list[Path]] = {}
    for each in files:
        by_hour.setdefault(each.parent.name, []).append(each)

    def hours(_begin: datetime, _end: datetime) -> Hours:
        for hour in sorted(by_hour):
            yield [page for each in by_hour[hour] for page in parsed(f"--trace {each}", _content(each))]

    return Trace(str(path), hours)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(
            f"--trace {path}: {error.strerror}: pass a file of a trace, or a folder with some"
        ) from error


def parsed(name: str, content: bytes) -> "list[TracePage]":
    """Return the pages of an object or a file. Raises ``CommandError``."""
    from zae_limiter.maintenance import read_trace

    try:
        return read_trace((gzip.decompress(content) if content.startswith(_GZIP) else content).decode())
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise CommandError(f"{name}: {error}: the file is not a trace, or damaged") from error


def _in_archive(connection: Connection, namespace_id: str) -> Trace:
    from botocore.exceptions import ClientError

    from zae_limiter.maintenance import TRACE_PREFIX

    way_out = "pass --trace off for hourly usage alone"
    try:
        (stack,) = connection.client("cloudformation").describe_stacks(StackName=connection.name)["Stacks"]
    except ClientError as error:
        raise CommandError(
            f"the stack, which names the archive with the trace, cannot be read: {error}; {way_out}"
        ) from error
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
    bucket = outputs.get(ARCHIVE_OUTPUT)
    if bucket is None:
        raise CommandError(f"the namespace keeps a trace, but stack {connection.name} has no archive for it: {way_out}")
    s3 = connection.client("s3")

    def hours(begin: datetime, end: datetime) -> Hours:
        at = begin.replace(minute=0, second=0, microsecond=0)
        try:
            with ThreadPoolExecutor(READERS) as readers:
                while at < end:
                    prefix = f"{TRACE_PREFIX}{namespace_id}/{at.astimezone(UTC):%Y-%m-%dT%H}/"
                    keys = list(_keys(s3, bucket, prefix))
                    bodies = readers.map(lambda key: s3.get_object(Bucket=bucket, Key=key)["Body"].read(), keys)
                    yield [
                        found
                        for key, body in zip(keys, bodies, strict=True)
                        for found in parsed(f"s3://{bucket}/{key}", body)
                    ]
                    at += timedelta(hours=1)
        except ClientError as error:
            raise CommandError(f"the trace in bucket {bucket} cannot be read: {error}; {way_out}") from error

    return Trace(f"s3://{bucket}/{TRACE_PREFIX}{namespace_id}/", hours)


def _keys(s3: Any, bucket: str, prefix: str) -> Iterable[str]:
    pages: Iterable[Mapping[str, Any]] = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return (each["Key"] for page in pages for each in page.get("Contents", ()))
