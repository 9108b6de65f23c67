"""`zae-limiter cfn-template`."""

from collections.abc import Mapping
from typing import Any

import click

from ...columns import say_compact_json, say_sentence
from ...errors import debug_option
from .options import production_option, stack_options


@click.command("cfn-template")
@production_option
@stack_options
@debug_option
def cfn_template(*, production: bool, chosen: Mapping[str, Any]) -> None:
    """Print the CloudFormation template that the options ask for. Their numbers and texts are its parameters.

    Deploy it with your own tool, then upload the code of the Lambdas: `zae-limiter upgrade --code-only`.
    """
    from ...stack.cloudformation import LARGEST_BODY, body_of
    from ...stack.options import StackOptions, in_production
    from ...stack.template.build import parametrized

    template = parametrized(StackOptions().changed(**(in_production(chosen) if production else chosen)))
    say_compact_json(template)
    size = len(body_of(template))
    if size > LARGEST_BODY:
        told = f"It has {size:,} bytes: tools send a template of more than {LARGEST_BODY:,} from a bucket."
        say_sentence(told, err=True)
