"""What core's behaviour tests run over.

Lives here: fixtures. Never: a claim.
"""

import pytest
from hypothesis import settings

from support.core.worlds import World

settings.register_profile("zae", deadline=None)  # how long a case takes says nothing on a busy computer
settings.load_profile("zae")


@pytest.fixture(params=["async", "sync"])
def world(request: pytest.FixtureRequest) -> World:
    """A table in memory, a clock, and processes of one variant: each test runs in both."""
    return World(request.param)


@pytest.fixture
def async_world() -> World:
    """The same for what only one variant has: cancellation."""
    return World("async")
