"""The command `zae-limiter` and the list of its commands."""

from collections.abc import Mapping
from typing import Final

import click

from .errors import debug_option
from .installed import version_option
from .lazy import Entry, LazyCommands
from .options import connection_options, refuse_in_vain

ENTRIES: Final[Mapping[str, Entry]] = {
    "demo": Entry("demo:demo", "Show limits at work: who is admitted, who waits."),
    "limits": Entry("groups:limits", "Keep limits in files: plan, apply, diff."),
    "usage": Entry("groups:usage", "Show consumption by hour and by day."),
    "audit": Entry("groups:audit", "Show who changed what."),
    "system": Entry("groups:system", "Manage the default limits of a namespace."),
    "resource": Entry("groups:resource", "Manage the limits of a resource."),
    "tier": Entry("groups:tier", "Manage tiers: limits that many entities have."),
    "entity": Entry("groups:entity", "Manage entities and their own limits."),
    "why": Entry("why:why", "Show why an entity is refused, by which limit, and until when."),
    "top": Entry("top:top", "Watch a namespace: tokens, refusals, who is refused by whom."),
    "console": Entry("console:console", "Show a namespace in a browser: refusals, reasons, usage, changes."),
    "doctor": Entry(
        "doctor:doctor", "Look for what is wrong with a stack, a file or the caller, and say how to mend it."
    ),
    "disable": Entry("disable:disable", "Refuse an entity or a resource altogether, for a time or until `enable`."),
    "enable": Entry("disable:enable", "Let an entity or a resource in again: end what `disable` began."),
    "lift": Entry("lift:lift", "Give an entity other limits for a time, or end them."),
    "switch": Entry("switch:switch", "Show switches; let an entity bypass its limits, or cascade."),
    "bucket": Entry("groups:bucket", "Show live tokens; fill or credit a bucket."),
    "namespace": Entry("groups:namespace", "Register, delete, recover and purge namespaces."),
    "delegation": Entry("groups:delegation", "Let teams plan and apply one namespace each."),
    "local": Entry("groups:local", "Run an AWS with a stack on this machine."),
    "copy": Entry("copy:copy", "Copy namespaces from a file to a stack, or between stacks."),
    "deploy": Entry("stack.deploy:deploy", "Create a stack, or update it."),
    "status": Entry("stack.status:status", "Show the health of a stack: table, Lambdas, versions, latency."),
    "list": Entry("stack.status:list_stacks", "List the stacks that `deploy` created in a region."),
    "upgrade": Entry("stack.upgrade:upgrade", "Upgrade a stack to this release, and migrate its table."),
    "delete": Entry("stack.delete:delete", "Delete a stack and everything in it."),
    "cfn-template": Entry("stack.cfn_template:cfn_template", "Print the stack's template for other tools."),
    "lambda-export": Entry("lambda_export:lambda_export", "Write the code of a Lambda to a zip file."),
}


@click.group(cls=LazyCommands, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
@connection_options
@debug_option
def main() -> None:
    """Rate limits for API calls, kept in one DynamoDB table."""
    refuse_in_vain(click.get_current_context())
