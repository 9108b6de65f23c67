"""What lives here: the command `zae-limiter` and the list of its commands.
What never does: an import that `--help` does not need.
"""

from collections.abc import Mapping
from typing import Final

import click

from .errors import debug_option
from .lazy import Entry, LazyCommands

ENTRIES: Final[Mapping[str, Entry]] = {
    "demo": Entry("demo:demo", "See limits at work: who is admitted, who waits."),
    "limits": Entry("limits.group:limits", "Keep limits in files: plan, apply, diff."),
    "usage": Entry("usage.group:usage", "What was consumed, by the hour and by the day."),
    "audit": Entry("audit.group:audit", "Who changed what."),
    "system": Entry("system.group:system", "Limits that hold where nothing else does."),
    "resource": Entry("resource.group:resource", "Limits of a resource."),
    "entity": Entry("entity.group:entity", "Entities, their own limits, and which limits hold."),
    "bucket": Entry("bucket.group:bucket", "Live tokens: look, make full, give some."),
    "namespace": Entry("namespace.group:namespace", "Namespaces: register, delete, recover, purge."),
    "local": Entry("local.group:local", "An AWS on this machine, with a stack in it."),
    "deploy": Entry("stack.deploy:deploy", "Make a stack, or bring it up to date."),
    "status": Entry("stack.status:status", "How a stack is: table, Lambdas, versions, latency."),
    "list": Entry("stack.status:list_stacks", "The stacks that `deploy` made in a region."),
    "check": Entry("stack.versions:check", "Whether a stack and this release fit."),
    "upgrade": Entry("stack.deploy:upgrade", "Bring a stack to this release."),
    "delete": Entry("stack.delete:delete", "Delete a stack and all that is in it."),
    "cfn-template": Entry("stack.cfn_template:cfn_template", "Print the stack's template, for other tools."),
    "lambda-export": Entry("lambda_export:lambda_export", "Write the code of a Lambda to a zip file."),
    "version": Entry("stack.versions:version", "The versions that are installed here."),
}


@click.group(cls=LazyCommands, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zae-limiter-cli")
@debug_option
def main() -> None:
    """Rate limits for API calls, kept in one DynamoDB table."""
