"""The group `zae-limiter limits`, and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from ...errors import debug_option
from ...lazy import Entry, LazyCommands
from ...options import connection_options

ENTRIES: Final[Mapping[str, Entry]] = {
    "plan": Entry("limits.plan:plan", "Show what an apply would change; read-only."),
    "apply": Entry("limits.apply:apply", "Plan, then apply."),
    "diff": Entry("limits.plan:diff", "Show drift between files and the live table."),
    "cfn-template": Entry("limits.offline:cfn_template", "Print a CloudFormation template with the limits."),
    "validate": Entry("limits.offline:validate", "Check files, without a request."),
    "fmt": Entry("limits.fmt:fmt", "Put files in order, comments and all."),
    "init": Entry("limits.init:init", "Write a first manifest from the live limits."),
    "export": Entry("limits.state:export", "Print live limits as a manifest."),
    "schema": Entry("limits.offline:schema", "Print the JSON Schema of a manifest, for editors."),
    "state": Entry("limits.state:state", "Show managed items, owner, serial, lock, last apply."),
    "watch": Entry("limits.running:watch", "Show how far the apply under way is, until it ends."),
    "stop": Entry("limits.running:stop", "Stop the apply under way at its next checkpoint."),
    "history": Entry("limits.history:history", "List the last applies: who, when, what."),
    "show": Entry("limits.history:show", "Print the manifest of an earlier apply."),
    "rollback": Entry("limits.history:rollback", "Apply the manifest of an earlier apply again."),
    "unlock": Entry("limits.state:unlock", "Release the lock of an apply that was killed."),
}


@click.group(cls=LazyCommands, entries=ENTRIES)
@connection_options
@debug_option
def limits() -> None:
    """Keep the limits of namespaces in YAML files.

    apply, rollback, stop and unlock invoke the stack's provisioner. The others invoke its planner, which only reads.
    You need no permission but lambda:InvokeFunction on these two. With --store there is no stack: this process does
    their work on the file.
    """
