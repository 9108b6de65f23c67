import pytest

from support.cli.account import Account
from zae_limiter_cli.local import moto_items
from zae_limiter_cli.local.pump.stream import Stream


def test_a_reader_behind_the_oldest_record_goes_on_with_it_and_says_so(
    account: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(moto_items, "RECORDS_KEPT", 5)
    monkeypatch.setattr(moto_items, "RECORDS_TRIMMED", 1)
    name, arn = account.table()
    positions: dict[str, str] = {}
    stream = Stream(account.client("dynamodbstreams"), arn, positions)

    def put(*numbers: int) -> None:
        for number in numbers:
            account.client("dynamodb").put_item(TableName=name, Item={"PK": {"S": str(number)}})

    def read() -> list[int]:
        batch = stream.read(3)
        assert batch is not None
        stream.done(batch)
        return [int(record["dynamodb"]["Keys"]["PK"]["S"]) for record in batch.records]

    put(0, 1, 2)
    assert read() == [0, 1, 2]
    put(*range(3, 12))
    assert read() == [7, 8, 9]
    assert "records were trimmed before they were read" in caplog.text
    assert read() == [10, 11]
