"""The command `zae-limiter` and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from .errors import debug_option
from .installed import version_option
from .lazy import Entry, LazyCommands
from .options import connection_options, refuse_in_vain

SECTIONS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "Start": {
        "demo": Entry("demo:demo", "Show limits at work: who is admitted, who waits."),
        "local": Entry("groups:local", "Run an AWS with a stack on this machine."),
        "deploy": Entry("stack.deploy:deploy", "Create a stack, or update it."),
    },
    "Set limits": {
        "limits": Entry("groups:limits", "Keep limits in files: plan, apply, diff."),
        "system": Entry("groups:system", "Set the default limits of a namespace."),
        "resource": Entry("groups:resource", "Set the limits of a resource."),
        "tier": Entry("groups:tier", "Set the limits that many entities share."),
        "entity": Entry("groups:entity", "Show an entity; set its parents, tier and own limits."),
    },
    "See who is refused": {
        "why": Entry("why:why", "Show why an entity is refused, and until when."),
        "top": Entry("top:top", "Watch tokens and refusals of a namespace in the terminal."),
        "console": Entry("console:console", "Show refusals, reasons, usage and changes in a browser."),
    },
    "Act at once": {
        "disable": Entry("disable:disable", "Refuse an entity or a resource, for a time or until `enable`."),
        "enable": Entry("disable:enable", "Let an entity or a resource in again."),
        "lift": Entry("lift:lift", "Give an entity other limits for a time, or end them."),
        "switch": Entry("switch:switch", "Let an entity bypass its limits; list what is off or lifted."),
        "bucket": Entry("groups:bucket", "Fill or credit a bucket, merge its shards."),
    },
    "See what was used and changed": {
        "usage": Entry("groups:usage", "Show consumption by hour and by day."),
        "audit": Entry("groups:audit", "Show who changed what."),
    },
    "Look after namespaces": {
        "namespace": Entry("groups:namespace", "Register, list, delete, recover and purge namespaces."),
        "delegation": Entry("groups:delegation", "Let a team plan and apply one namespace."),
        "copy": Entry("copy:copy", "Copy namespaces from a file to a stack, or between stacks."),
    },
    "Look after stacks": {
        "status": Entry("stack.status:status", "Show the health and the versions of a stack."),
        "doctor": Entry("doctor:doctor", "Find what is wrong with a stack or a file, and its fix."),
        "list": Entry("stack.status:list_stacks", "List the stacks that `deploy` created in a region."),
        "upgrade": Entry("stack.upgrade:upgrade", "Upgrade a stack to this release, and migrate its table."),
        "delete": Entry("stack.delete:delete", "Delete a stack and everything in it."),
        "cfn-template": Entry("stack.cfn_template:cfn_template", "Print the stack's template for other tools."),
        "lambda-export": Entry("lambda_export:lambda_export", "Write the code of a Lambda to a zip file."),
    },
}


@click.group(cls=LazyCommands, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
@connection_options
@debug_option
def main() -> None:
    """Rate limits for API calls, kept in one DynamoDB table."""
    refuse_in_vain(click.get_current_context())
