import subprocess
import sys

import pytest

import zae_limiter_aggregator
from zae_limiter_aggregator import handler


def test_the_handler_is_public() -> None:
    assert zae_limiter_aggregator.on_event is handler.on_event


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'on_events'"):
        zae_limiter_aggregator.on_events  # noqa: B018


def test_the_handler_is_imported_on_first_use() -> None:
    ask = "import sys, zae_limiter_aggregator; print([name for name in sys.modules if 'limiter_aggregator.' in name])"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
