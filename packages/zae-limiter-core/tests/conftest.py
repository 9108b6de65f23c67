"""What core's behaviour tests run over.

Lives here: fixtures. Never: a claim.
"""

import pytest
from worlds import World


@pytest.fixture(params=["async", "sync"])
def world(request: pytest.FixtureRequest) -> World:
    """A table in memory, a clock, and processes of one colour: each test runs in both."""
    return World(request.param)


@pytest.fixture
def async_world() -> World:
    """The same for what only one colour has: cancellation."""
    return World("async")
