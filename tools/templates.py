"""What lives here: the templates that `just checkov` looks at, written to a directory.
What never does: a check of them.

    templates.py DIRECTORY
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from zae_limiter_cli.stack.options import StackOptions, in_production
from zae_limiter_cli.stack.template.build import plain

KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def templates() -> dict[str, dict[str, Any]]:
    """Return each by the name of its file: a stack for production, the same with all that protects more, and the same
    with provisioned capacity.
    """
    production = StackOptions().changed(**in_production({}))
    hardened = production.changed(kms_key_arn=KEY, archive_lock="compliance", app_roles=True, tracing=True)
    units = {"min_reads": 500, "min_writes": 1000, "max_reads": 20_000, "max_writes": 40_000}
    sized = production.changed(capacity="provisioned", **units, warm_writes=40_000, contributor_insights="all")
    made = {"production": production, "hardened": hardened, "provisioned": sized}
    return {f"{name}.json": plain("my-app", options) for name, options in made.items()}


if __name__ == "__main__":
    for name, template in templates().items():
        (Path(sys.argv[1]) / name).write_text(json.dumps(template, indent=1), encoding="utf-8")
