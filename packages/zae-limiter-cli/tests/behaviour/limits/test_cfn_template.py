"""The template of `limits cfn-template`, as cfn-lint checks it."""

from pathlib import Path

import pytest

from support.cli.limits_stack import Stack

EXAMPLE = (Path(__file__).parents[5] / "testdata" / "tenant-alpha.limits.yaml").read_text("utf-8")


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--take-over",)], ids=["ours", "taken over"])
def test_the_template_of_the_example_is_clean(stack: Stack, options: tuple[str, ...]) -> None:
    from cfnlint.api import lint  # slow to import, also where the test is only collected
    from cfnlint.helpers import REGIONS

    template = stack.run("cfn-template", "-f", stack.write(EXAMPLE), *options).stdout  # warnings go beside it
    assert lint(template, regions=REGIONS) == []
    assert "cfn-lint" not in template


SECRET = """
namespace: tenant-alpha
entities:
  acme:
    name: ${AWS::AccountId}
    metadata: {"Fn::ImportValue": platform-secrets, note: {"Ref": "{{resolve:ssm:/x}}"}}
"""


def test_metadata_in_a_template_call_no_function(stack: Stack) -> None:
    """The author of a manifest gets nothing of the account that the template is deployed in."""
    template = stack.ok("cfn-template", "-f", stack.write(SECRET))
    text = '{"Fn::ImportValue":"platform-secrets","note":{"Ref":"\\u007b\\u007bresolve:ssm:/x\\u007d\\u007d"}}'
    assert f"Metadata: '{text}'\n" in template
    assert "Fn::ImportValue:" not in template


@pytest.mark.parametrize(
    ("entity", "problem"),
    [
        ("Ref: {}", 'Entities.Ref: "Ref" cannot be a name here: CloudFormation would evaluate it'),
        ("'Fn::Sub': {}", 'Entities["Fn::Sub"]: "Fn::Sub" cannot be a name here: CloudFormation would evaluate it'),
        (
            "acme: {name: '{{resolve:ssm:/x}}'}",
            "Entities.acme.Name: must not contain `{{resolve:`: CloudFormation would replace it",
        ),
    ],
    ids=["Ref", "Fn::Sub", "resolve"],
)
def test_what_cloudformation_would_evaluate_is_no_template(stack: Stack, entity: str, problem: str) -> None:
    file = stack.write(f"namespace: tenant-alpha\nentities:\n  {entity}\n")
    for options in ((), ("--delegated",), ("--out", str(stack.directory / "out"))):
        assert f"ResourceProperties of tenant-alpha: {problem}\n" in stack.error("cfn-template", "-f", file, *options)
    assert not (stack.directory / "out").exists()
    stack.ok("validate", "-f", file)


@pytest.mark.parametrize("command", ["validate", "plan", "cfn-template"])
def test_money_that_counts_tokens_is_told_by_each_command(stack: Stack, command: str) -> None:
    file = stack.write("namespace: tenant-alpha\nresources:\n  gpt-4: {limits: {usd: 250/month UTC}}\n")
    done = stack.run(command, "-f", file)
    assert done.exit_code == 0
    told = " ".join(done.stderr.split())
    assert "usd is 250/month UTC, tokens that price lists count as $0.00025: for money write $250/month" in told
    assert "[bare-money]" in told
