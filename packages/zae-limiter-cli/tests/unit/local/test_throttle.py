"""A stack that throttles its writes for a while."""

import json

import pytest

from zae_limiter_cli.local.throttle import WRITES_A_SECOND, Throttle


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [1000.0]
    monkeypatch.setattr("zae_limiter_cli.local.throttle.time.monotonic", lambda: at[0])
    return at


def test_a_few_writes_of_each_second_pass_until_the_end(now: list[float]) -> None:
    throttle = Throttle()
    assert [throttle.refused() for _ in range(20)] == [None] * 20
    assert throttle.put(b'{"seconds": 2}')[0] == 200
    for _ in range(2):
        passed = [throttle.refused() is None for _ in range(20)]
        assert passed == [True] * WRITES_A_SECOND + [False] * (20 - WRITES_A_SECOND)
        now[0] += 1
    assert [throttle.refused() for _ in range(20)] == [None] * 20


def test_zero_ends_it_at_once(now: list[float]) -> None:
    throttle = Throttle()
    throttle.put(b'{"seconds": 3600}')
    assert throttle.put(b'{"seconds": 0}')[0] == 200
    assert [throttle.refused() for _ in range(20)] == [None] * 20
    assert now == [1000.0]


def test_the_refusal_is_one_of_dynamodb(now: list[float]) -> None:
    throttle = Throttle()
    throttle.put(b'{"seconds": 1}')
    answers = [throttle.refused() for _ in range(WRITES_A_SECOND + 1)]
    assert answers[-1] is not None
    status, _, body = answers[-1]
    told = json.loads(body)
    assert (status, told["__type"].rpartition("#")[2]) == (400, "ThrottlingException")
    assert told["ThrottlingReasons"][0]["reason"] == "TableWriteMaxOnDemandThroughputExceeded"
    assert now == [1000.0]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[1]", b"7", b'{"seconds": -1}', b'{"seconds": 3601}', b'{"seconds": true}', b'{"seconds": NaN}'],
)
def test_another_body_is_refused(body: bytes) -> None:
    throttle = Throttle()
    assert throttle.put(body)[0] == 400
    assert throttle.refused() is None
