"""The group `zae-limiter limits`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "plan": Entry("limits.plan:plan", "What an apply would change; read-only."),
    "apply": Entry("limits.apply:apply", "Plan, then apply."),
    "diff": Entry("limits.plan:diff", "Drift between files and the live table."),
    "cfn-template": Entry("limits.offline:cfn_template", "A CloudFormation template that holds the limits."),
    "validate": Entry("limits.offline:validate", "Check files; nothing is sent."),
    "export": Entry("limits.state:export", "Live limits as a manifest."),
    "schema": Entry("limits.offline:schema", "The JSON Schema of a manifest, for editors."),
    "state": Entry("limits.state:state", "What is managed, owner, serial, lock, last apply."),
    "unlock": Entry("limits.state:unlock", "Free the lock of an apply that is gone."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@debug_option
def limits() -> None:
    """Keep the limits of namespaces in files: one YAML file for each namespace.

    All of it goes through the stack's provisioner, so lambda:InvokeFunction on it is the only permission needed.
    """
