import logging
from collections.abc import Iterator

import pytest

from support.provisioner.provisions import World
from support.provisioner.stack_replies import Replies, response_url
from support.provisioner.stack_sender import Stack
from zae_limiter_provisioner.handler import LOGGERS
from zae_limiter_provisioner.table import _table


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def replies() -> Iterator[Replies]:
    with response_url() as replies:
        yield replies


@pytest.fixture
def stack(world: World, replies: Replies, monkeypatch: pytest.MonkeyPatch) -> Stack:
    return Stack(world, replies, monkeypatch)


@pytest.fixture(autouse=True)
def no_client_of_another_test() -> Iterator[None]:
    yield
    _table.cache_clear()


@pytest.fixture(autouse=True)
def no_lines_of_json_in_another_test() -> Iterator[None]:
    yield
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
