"""What an apply of one limit and an entity of a large manifest cost, as counts that do not depend on the machine.

A figure above its ceiling is a path that has grown: lower the ceiling whenever you can, and argue in the commit to
raise it. The ceilings are the exact figures on Python 3.11; other versions may make some calls more.
"""

import os
import subprocess
import sys
from pathlib import Path

from support.core.calls import CountedCalls
from support.provisioner.provisions import World, limits, manifest
from zae_limiter_manifest import load

CALLS, REQUESTS = 5_967, 13  # of one apply, its manifest's text included: builtins count as calls
CALLS_OF_LOADING = 425  # for each further entity whose limits others have, too, its hash included
SPARE = 0 if sys.version_info[:2] == (3, 11) else 1_000  # calls
TEXT = """
namespace: tenant-alpha
resources:
  gpt-4:
    limits:
      rpm: {capacity: 100}
"""


def counts() -> tuple[int, int]:
    """The calls and the requests of an apply that changes one limit, in a namespace that was applied to before."""
    world = World()
    for capacity in (1, 2):
        world.apply(manifest(resources={"gpt-4": limits(capacity)}))
    store = world.store()
    with CountedCalls() as calls:
        answer = world.ask("apply", load(TEXT), store=store)
    assert (answer.status, answer.errors) == ("applied", ())
    return calls.number, len(store.seen)


def counts_alone() -> tuple[int, int]:
    """The counts in a process of its own: behind other tests, which leave caches full or empty, they differ by some."""
    code = "from test_counts import counts; counts(); print(*counts())"  # the first has what is made once in a process
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    calls, requests = map(int, done.stdout.split())
    return calls, requests


def test_an_apply_of_one_limit_makes_no_more_calls_and_requests() -> None:
    calls, requests = counts_alone()
    assert calls <= CALLS + SPARE, "lower the ceiling when you can; argue in the commit to raise it"
    assert requests <= REQUESTS, "lower the ceiling when you can; argue in the commit to raise it"


def calls_of_loading(entities: int) -> int:
    lines = [f"  e{number:04d}: {{resources: {{gpt-4: {{limits: {{rpm: 100/min}}}}}}}}\n" for number in range(entities)]
    text = "namespace: tenant-alpha\nentities:\n" + "".join(lines)
    with CountedCalls() as calls:
        load(text).canonical_hash()
    return calls.number


def test_an_entity_with_limits_that_others_have_is_loaded_in_few_calls() -> None:
    calls_of_loading(300)  # what is remembered of these texts
    each = (calls_of_loading(300) - calls_of_loading(200)) / 100
    assert each <= CALLS_OF_LOADING + (SPARE and 100), "lower the ceiling when you can; argue in the commit to raise it"
