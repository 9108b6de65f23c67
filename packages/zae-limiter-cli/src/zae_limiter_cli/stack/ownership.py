"""Check that a stack is ours, and not one that only has the name."""

from typing import Any

from ..errors import CommandError
from .cloudformation import STACK_TAG, Stack, template_of
from .template.build import METADATA


def check_ours(client: Any, stack: Stack) -> None:
    """Raise ``CommandError`` for a stack that neither `deploy` nor our template created."""
    if not is_ours(client, stack):
        raise CommandError(
            f"stack {stack.name} is not a stack of zae-limiter, it has neither the tag {STACK_TAG} nor the metadata: "
            "nothing was changed; choose another --name"
        )


def is_ours(client: Any, stack: Stack) -> bool:
    """Return whether it has our tag, or the metadata of our template, which another tool may have deployed."""
    if STACK_TAG in stack.tags:
        return True
    has_template = stack.status != "REVIEW_IN_PROGRESS"
    return has_template and METADATA in template_of(client, stack.name).get("Metadata", {})
