"""The group `zae-limiter limits`."""

import click

from ...errors import debug_option
from ...lazy import CommandsOfModules
from ...options import connection_options


@click.group(cls=CommandsOfModules, modules=("plan", "apply", "offline", "fmt", "init", "state", "running", "history"))
@connection_options
@debug_option
def limits() -> None:
    """Keep the limits of namespaces in YAML files.

    apply, rollback, stop and unlock invoke the stack's provisioner. The others invoke its planner, which only reads.
    You need no permission but lambda:InvokeFunction on these two. With --store there is no stack: this process does
    their work on the file.
    """
