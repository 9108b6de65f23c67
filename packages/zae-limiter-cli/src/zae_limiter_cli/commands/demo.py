"""`zae-limiter demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import CommandError, debug_option
from ..help_page import ConnectionOption

if TYPE_CHECKING:
    from zae_limiter_manifest import LimitsManifest

    from ..demo.backends import Backend


@click.command()
@click.option(
    "--file", "-f", "path", type=click.Path(path_type=Path), help="Manifest to apply.  [default: the bundled example]"
)
@click.option(
    "--store",
    cls=ConnectionOption,
    help="File to use instead of memory, such as sqlite:///demo.db; created if missing.",
)
@click.option(
    "--endpoint-url",
    cls=ConnectionOption,
    help="DynamoDB endpoint to use instead of memory, such as http://localhost:8000.",
)
@click.option(
    "--name", "-n", cls=ConnectionOption, help="Table at the endpoint, created if missing.  [default: zae-limiter-demo]"
)
@click.option(
    "--region",
    cls=ConnectionOption,
    help="Region of the endpoint.  [default: the SDK's; us-east-1 for a local endpoint]",
)
@debug_option
def demo(path: Path | None, store: str | None, endpoint_url: str | None, name: str | None, region: str | None) -> None:
    """Apply a manifest of limits, then send a burst of concurrent calls from several callers, among them two API keys
    of one project. Show which calls are admitted, which wait and for how long, and the cost. Takes about 7 seconds.

    The demo runs in memory: no network, no account. With --store it runs on a file, for which the other commands take
    the same option. With --endpoint-url it runs against a DynamoDB and leaves its
    table there. A local endpoint (localhost or a loopback address) needs no credentials.
    """
    from ..demo.example import example

    if endpoint_url is None and (name or region):
        raise click.UsageError("--name and --region need --endpoint-url; without it the demo runs in memory")
    if store is not None and endpoint_url is not None:
        raise click.UsageError("--store is for a file and --endpoint-url for a DynamoDB: pass the one or the other")
    source = path or example()
    manifest = _manifest(source)
    backend = _backend(manifest.namespace, store, endpoint_url, name, region)
    _run(manifest, source.name, backend)


def _manifest(source: Path) -> "LimitsManifest":
    from zae_limiter_manifest import LimitsManifest

    return LimitsManifest.from_yaml(source.read_text(encoding="utf-8"), str(source))


def _backend(
    namespace: str, store: str | None, endpoint_url: str | None, name: str | None, region: str | None
) -> "Backend":
    from ..demo import backends

    if store is not None:
        return backends.in_file(namespace, store)
    if endpoint_url is None:
        return backends.in_memory(namespace)
    return backends.at_endpoint(namespace, endpoint_url, table=name or "zae-limiter-demo", region=region)


def _run(manifest: "LimitsManifest", file: str, backend: "Backend") -> None:
    import asyncio
    import logging

    from ..demo.run import play, say_applied
    from ..demo.scenario import apply
    from ..terminal import Terminal

    logging.getLogger("zae_limiter").addHandler(
        logging.NullHandler()
    )  # the display shows it, and log lines would break it
    terminal = Terminal.of_stdout()
    terminal.say(f"{terminal.paint('zae-limiter demo', 'bold')}, {backend.description}")
    answer = apply(backend, manifest)
    if answer["errors"]:
        raise CommandError(*(error["message"] for error in answer["errors"]))
    say_applied(terminal, file, answer)
    asyncio.run(play(backend, manifest, terminal))
