import json
from datetime import UTC, datetime

import pytest

from zae_limiter import Entity, Limit
from zae_limiter.values import Bucket, BucketLimit
from zae_limiter_cli.data.showing import plain_bucket, say_buckets, show_entity


def bucket(expires_at_ms: int | None) -> Bucket:
    anchor = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
    return Bucket("e", "r", 2, (BucketLimit(Limit.per_minute("rpm", 60), -5, 65),), anchor, expires_at_ms, 4)


def test_debt_shards_and_the_end_of_a_bucket_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    say_buckets([bucket(None), bucket(int(datetime(2024, 2, 1, 3, 4, tzinfo=UTC).timestamp() * 1000))])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["RESOURCE", "LIMIT", "AVAILABLE", "BURST", "REFILL", "CONSUMED", "SHADOWED", "SHARDS", "EXPIRES", "(UTC)"],
        ["r", "rpm", "-5", "60", "60/min", "65", "4", "2", "-"],
        ["r", "rpm", "-5", "60", "60/min", "65", "4", "2", "2024-02-01", "03:04"],
    ]


def test_json_has_everything_about_a_bucket() -> None:
    limit = {"capacity": 60, "burst": 60, "refill_amount": 60, "refill_period": 60, "shadow": False}
    assert plain_bucket(bucket(None)) == {
        "entity_id": "e",
        "resource": "r",
        "shard_count": 2,
        "anchor": "2024-01-01T00:00:00.000Z",
        "expires_at": None,
        "shadowed": 4,
        "limits": {"rpm": {"available": -5, "consumed": 65, **limit}},
    }


def test_a_line_break_in_a_name_breaks_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_entity(
        Entity("e", "a\nb", None, cascade=False, metadata={"k": "\x1b[2J"}, created_at="now", version=1), "table"
    )
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 7
    assert "\x1b" not in out
    assert json.dumps("a\nb") in out


def test_a_value_of_metadata_that_is_no_string_is_shown_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    metadata = {"tier": 2, "tags": ["a"], "team": "blue"}
    show_entity(Entity("e", None, None, cascade=False, metadata=metadata, created_at="now", version=1), "table")
    assert 'tags=["a"], team=blue, tier=2' in capsys.readouterr().out
