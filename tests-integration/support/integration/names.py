"""What lives here: names of what one test run makes, by which its remains can be found.
What never does: what has the name.
"""

import os
import uuid

RUN_VARIABLE = "ZAEL_TEST_RUN"  # the workers of a run inherit it


def run_prefix() -> str:
    """What the names of this run begin with, and of no other run."""
    return f"zael-{os.environ.setdefault(RUN_VARIABLE, uuid.uuid4().hex[:8])}"


def own_name() -> str:
    """A name that nothing else has, long enough for every target."""
    return f"{run_prefix()}-{uuid.uuid4().hex[:8]}"
