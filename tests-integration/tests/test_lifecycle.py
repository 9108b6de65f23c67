"""What lives here: a few lives of each kind; `just lifecycle` runs many.
What never does: what one request does (test_failures).
"""

from collections.abc import Iterator

import pytest

from lifecycle.world import KINDS, World, world
from support.integration.fetch import Unavailable

LIVES = 2  # of each kind, in different modes
CASES = [
    pytest.param(kind, number, marks=[] if number == place % LIVES else pytest.mark.long)
    for place, kind in enumerate(KINDS)
    for number in range(LIVES)
]


@pytest.fixture(scope="module")
def here() -> Iterator[World]:
    try:
        with world() as made:
            yield made
    except Unavailable as reason:
        pytest.skip(f"dynoxide: {reason}")


@pytest.mark.long(keep=4)
@pytest.mark.parametrize(("kind", "number"), CASES)
def test_a_process_ends_in_time_and_silently_and_the_ledger_is_exact(here: World, kind: str, number: int) -> None:
    wrong = [str(result) for result in here.run([kind], [number]) if result.violations]
    assert not wrong, "\n".join(wrong)
