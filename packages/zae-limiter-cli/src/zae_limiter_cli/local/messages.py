"""The messages of the local commands."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from ..columns import counted
from .server import DEFAULT_PORT
from .state_dir import Running


def another_port(running: Running) -> str | None:
    """Return why a stack without a chosen port is not at the default one; ``None`` if it is."""
    port = urlsplit(running.endpoint_url).port
    if port == DEFAULT_PORT:
        return None
    return f"Port {DEFAULT_PORT} is in use, so {running.name} took {port}."


def ready(running: Running, *, detached: bool) -> str:
    """Return one screen about what runs now, and what to do next."""
    name = running.name
    named = f" --name {name}"
    ending = f"`zae-limiter local down{named}` stops it" if detached else "Ctrl-C stops it"
    return f"""\
{name} is up at {running.endpoint_url} after {running.ready_seconds:.1f} s; {ending}.

  table        {name}: {running.plane}
  provisioner  {name}-limits-provisioner
  planner      {name}-limits-planner
  aggregator   {name}-aggregator, on the table's stream

In a shell, for the AWS CLI and every SDK too:

  eval "$(zae-limiter local env{named})"
  zae-limiter status
  zae-limiter console --allow-changes   # the same in a browser, by the extra `console`
  zae-limiter local logs --follow

In Python, async or not:

  from zae_limiter import Limit, SyncRateLimiter, SyncRepository

  with SyncRateLimiter(repository=SyncRepository.open()) as limiter:
      limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100)])
      with limiter.acquire("key-abc", "gpt-4", {{"rpm": 1}}):
          ...  # your call
"""


def status(running: Running, readers: Sequence[Mapping[str, Any]]) -> str:
    """Return what runs, and how far the stream has been read."""
    lines = [
        f"{running.name} is up at {running.endpoint_url}, process {running.pid}",
        f"  table  {running.plane}",
    ]
    return "\n".join([*lines, *(f"  stream {_reader(each)}" for each in readers)])


def plain_status(running: Running, readers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the status for programs; only `local env` prints the credentials."""
    told = {name: value for name, value in asdict(running).items() if name != "credentials"}
    return {**told, "streams": list(readers)}


def _reader(told: Mapping[str, Any]) -> str:
    batches = f"{told['batches']:,} {'batch' if told['batches'] == 1 else 'batches'}"
    counts = f"{counted(told['records'], 'record')} in {batches}, {told['given_up']:,} given up"
    failure = f"; held up by {told['failure']}" if told["failure"] else ""
    return f"of {told['table']} to {told['function']}: {counts}{failure}"
