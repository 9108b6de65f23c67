import logging

import pytest

from zae_limiter_aggregator.handler import on_event


def test_a_batch_is_counted_and_none_of_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="zae_limiter_aggregator.handler")
    answer = on_event({"Records": [{"eventID": "1"}, {"eventID": "2"}]}, None)
    assert answer == {"batchItemFailures": []}
    assert caplog.messages == ["records: 2"]


def test_an_event_that_is_no_batch_fails_loudly() -> None:
    with pytest.raises(KeyError):
        on_event({}, None)
