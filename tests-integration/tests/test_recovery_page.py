"""What lives here: the restore of docs/operate/disaster-recovery.md, its commands run in their order against moto.
What never does: what a restored table admits (core's test_restored_table); how long a restore takes on AWS.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import xform_name
from click.testing import CliRunner

from support.integration.empty_account import empty_account
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.exceptions import InfrastructureNotFoundError
from zae_limiter.maintenance import create_table_request
from zae_limiter_cli import confirmation
from zae_limiter_cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "disaster-recovery.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMITS = [Limit.per_day("rpd", 100)]


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account at moto, an empty directory, and somebody at a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(confirmation, "can_ask", lambda: True)
    with empty_account(monkeypatch):
        yield


def lines() -> list[str]:
    """The commands of the restore: those that need a Lambda are left out, because moto runs none."""
    found = [line for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [line for line in found if not line.startswith("zae-limiter limits ")]


def zae_limiter(words: list[str]) -> tuple[int, str]:
    done = CliRunner().invoke(main, words, input="y\n")
    return done.exit_code, done.output


def aws(words: list[str], backup_arn: str) -> Any:
    """Make the call that a line of the aws command makes."""
    client = boto3.client(words[0])
    if words[1] == "wait":
        waiter = client.get_waiter(words[2].replace("-", "_"))
        return waiter.wait(**arguments(client, "DescribeTable", words[3:]))
    name = {xform_name(each, "-"): each for each in client.meta.service_model.operation_names}[words[1]]
    words = [backup_arn if word == "BACKUP_ARN" else word for word in words]
    call: Callable[..., Any] = getattr(client, xform_name(name))
    return call(**arguments(client, name, words[2:]))


def arguments(client: Any, operation: str, words: list[str]) -> dict[str, Any]:
    members = client.meta.service_model.operation_model(operation).input_shape.members
    options = {xform_name(member, "-"): member for member in members}
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        option = rest.pop(0).removeprefix("--")
        if members[options[option.removeprefix("no-")]].type_name == "boolean":
            found[options[option.removeprefix("no-")]] = not option.startswith("no-")
        else:
            found[options[option]] = value(rest.pop(0))
    return found


def value(text: str) -> Any:
    """The shorthand of the aws command for a structure; other text as it is."""
    if "=" not in text:
        return text
    pairs = (part.split("=") for part in text.split(","))
    return {name: each == "true" if each in {"true", "false"} else each for name, each in pairs}


def test_the_restore_gives_the_table_its_name_and_its_settings_back(account: None) -> None:
    backup_arn, missing, used = "", False, False
    for line in lines():
        words = shlex.split(line, comments=True)
        if words[0] == "zae-limiter":
            code, output = zae_limiter(words[1:])
            assert code == 0, output
            if words[1] == "deploy" and not used:
                use()
                used = True
        else:
            answer = aws(words[1:], backup_arn)
            backup_arn = answer["BackupDetails"]["BackupArn"] if words[2] == "create-backup" else backup_arn
        if words[1:3] == ["dynamodb", "delete-table"] and "my-app" in words:
            missing = table_is_missing()
    assert missing
    table = boto3.client("dynamodb")
    found = table.describe_table(TableName="my-app")["Table"]
    assert found["DeletionProtectionEnabled"]
    assert found["StreamSpecification"] == create_table_request("")["StreamSpecification"]
    assert table.describe_time_to_live(TableName="my-app")["TimeToLiveDescription"]["AttributeName"] == "ttl"
    backups = table.describe_continuous_backups(TableName="my-app")["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    with SyncRateLimiter(SyncRepository.open(stack="my-app"), default_limits=LIMITS) as limiter:
        assert limiter.available("ann", "gpt-4")["rpd"] == 70


def use() -> None:
    with (
        SyncRateLimiter(SyncRepository.open(stack="my-app"), default_limits=LIMITS) as limiter,
        limiter.acquire("ann", "gpt-4", {"rpd": 30}),
    ):
        pass


def table_is_missing() -> bool:
    """Whether calls that may fail open raise all the same."""
    with pytest.raises(InfrastructureNotFoundError):
        SyncRepository.open(stack="my-app", on_unavailable="allow")
    return True
