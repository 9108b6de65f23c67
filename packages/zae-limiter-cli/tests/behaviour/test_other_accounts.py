"""docs/operate/accounts.md: a table used from another account, by a role and by its ARN; a template for stack sets."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from support.cli.granted import ACCOUNTS, ORGANIZATION
from zae_limiter import Limit, SyncRepository, ValidationError
from zae_limiter.engines.dynamodb.options import ClientOptions
from zae_limiter_cli.artifacts.builder import build_artifact
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import parametrized, plain

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[4] / "docs/operate/accounts.md").read_text(encoding="utf-8")
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/my-app"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line)[1:])


@pytest.fixture
def table(aws: str) -> None:
    with SyncRepository.open(stack="my-app", region="us-east-1", create_table=True) as repository:
        repository.set_resource_defaults("checkout", [Limit.per_minute("rpm", 10)])


@pytest.mark.usefixtures("table")
def test_the_programs_of_the_page_acquire_by_the_role_and_find_the_table_by_its_arn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_role, by_arn = blocks("python")
    found: dict[str, Any] = {}
    exec(compile(by_role, "accounts.md", "exec"), found)
    assert capsys.readouterr().out == "admitted\n"
    assert found["credentials"].get_frozen_credentials().token  # of the role
    found["repository"].close()
    exec(compile(by_arn, "accounts.md", "exec"), found)
    with found["repository"] as repository:
        assert repository.get_resource_defaults("checkout") == [Limit.per_minute("rpm", 10)]


@pytest.mark.usefixtures("table")
def test_a_table_named_by_its_arn_serves_every_kind_of_request() -> None:
    with SyncRepository.open(stack=ARN) as repository:
        repository.create_entity("org")
        repository.create_entity("key", parent_id="org", cascade=True)
        assert {each.entity_id for each in repository.get_children("org")} == {"key"}
        repository.set_limits("key", [Limit.per_minute("rpm", 5)], "checkout")
        assert repository.get_limits("key", "checkout") == [Limit.per_minute("rpm", 5)]


def test_the_region_is_that_of_the_arn_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert ClientOptions(table_name=ARN).session()["region_name"] == "us-east-1"
    assert ClientOptions(table_name="my-app").session()["region_name"] == "eu-west-1"
    with pytest.raises(ValidationError, match="leave it out: by its ARN, the table is in us-east-1"):
        SyncRepository.open(stack=ARN, region="eu-west-1")


def test_the_deploys_of_the_page_are_sound(aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert sum(line.startswith("zae-limiter deploy") for line in lines) == 3
    for line in lines:
        if line.startswith("zae-limiter deploy"):
            done = run(f"{line} --dry-run")
        elif line.startswith("zae-limiter cfn-template"):
            done = run(line.partition(" > ")[0])
            assert "AWS::StackName" not in done.stdout
        elif line.startswith("zae-limiter lambda-export"):
            done = run(line)
        else:
            continue
        assert done.exit_code == 0, (line, done.output)
    for block in blocks("json"):
        assert json.loads(block)["Version"] == "2012-10-17"


@pytest.mark.long
def test_a_stack_of_a_stack_set_has_the_chosen_name_and_its_code_from_the_bucket_of_its_region(aws: str) -> None:
    from cfnlint.api import lint  # slow to import

    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="acme-us-east-1")
    template = parametrized(StackOptions(resource_name="my-app", code_bucket="acme"))
    assert lint(json.dumps(template), regions=["us-east-1"]) == []
    for name in ("aggregator", "provisioner"):
        artifact = build_artifact(name)
        key = f"zae-limiter/zae-limiter-{name}-{artifact.version}.zip"
        assert f'"S3Key": "{key}"' in json.dumps(template)
        s3.put_object(Bucket="acme-us-east-1", Key=key, Body=artifact.content)
    stack = "StackSet-limiter-12345678-1234-1234-1234-123456789012"
    boto3.client("cloudformation").create_stack(
        StackName=stack, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_NAMED_IAM"]
    )
    found = boto3.client("lambda").get_function(FunctionName="my-app-limits-provisioner")
    assert found["Configuration"]["CodeSha256"] == build_artifact("provisioner").code_sha256
    with SyncRepository.open(stack="my-app") as repository:
        assert repository.ping()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trusted_accounts": "1234"}, "--trusted-accounts '1234': must be at most 20 accounts"),
        ({"trusted_accounts": f"{ACCOUNTS[0]}, {ACCOUNTS[1]}"}, "--trusted-accounts"),
        ({"trusted_accounts": "*"}, "--trusted-accounts"),
        (
            {"trusted_organization": ORGANIZATION, "trusted_accounts": ACCOUNTS[0]},
            "--trusted-accounts and --trusted-organization exclude each other",
        ),
        ({"trusted_organization": "o-*"}, "--trusted-organization"),
        ({"trusted_organization": f"{ORGANIZATION}\n"}, "--trusted-organization"),
        ({"subnet_ids": "subnet-0a1b2c3d"}, "--security-group-ids: Lambdas in a VPC need subnets and security groups"),
        ({"security_group_ids": "sg-0a1b2c3d"}, "--subnet-ids: Lambdas in a VPC need subnets and security groups"),
        ({"code_bucket": "Acme/x"}, "--code-bucket"),
        ({"resource_name": "${AWS::Region}"}, "--resource-name"),
    ],
)
def test_what_is_no_list_no_organization_and_no_name_is_refused(given: dict[str, str], told: str) -> None:
    from zae_limiter_cli.errors import CommandError

    with pytest.raises(CommandError) as refused:
        StackOptions(**given)  # type: ignore[arg-type]
    assert str(refused.value).startswith(told)


def test_a_stack_that_is_deployed_keeps_its_own_name() -> None:
    from zae_limiter_cli.errors import CommandError

    with pytest.raises(CommandError, match="--resource-name is for the printed template"):
        plain("my-app", StackOptions(resource_name="other"))
