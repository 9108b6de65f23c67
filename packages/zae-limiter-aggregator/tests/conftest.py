"""What the aggregator's tests run over.

Lives here: fixtures. Never: a claim.
"""

import logging
from collections.abc import Iterator

import pytest

from zae_limiter_aggregator.handler import LOGGERS


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Loggers as they were, after the handler has set them up."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.level, logger.propagate = handlers, level, propagate
