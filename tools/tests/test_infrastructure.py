"""What lives here: the examples for Terraform and the CDK, beside the template that the command line prints today.
What never does: `terraform validate`, which no index that the tests can reach has; the files are parsed as HCL instead.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hcl2
import pytest
from click.testing import CliRunner

from zae_limiter_cli.main import main
from zae_limiter_cli.stack.code import function_name
from zae_limiter_cli.stack.delegations import KINDS, LATEST
from zae_limiter_manifest.delegation import alias_of

EXAMPLES = Path(__file__).parents[2] / "examples"
TERRAFORM, CDK = EXAMPLES / "terraform", EXAMPLES / "cdk"
MANIFEST = EXAMPLES / "tenant-alpha.limits.yaml"
LARGEST_BODY = 51_200  # of a template that a tool sends without a bucket
REFERENCE = re.compile(r"(?<![\w.])((?:var|module|aws_\w+|terraform_data)\.\w+)")
OFFLINE = {"CDK_DISABLE_CLI_TELEMETRY": "1", "AWS_REGION": "us-east-1"}
OUTPUT = re.compile(r'outputs\["(\w+)"\]')


def printed(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def template() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(printed("cfn-template"))
    return found


class Folder:
    """What the files of a folder declare, as Terraform joins them."""

    def __init__(self, texts: list[str]) -> None:
        self.text = "\n".join(texts)
        self.blocks = [hcl2.loads(text) for text in texts]

    @classmethod
    def read(cls, folder: Path) -> "Folder":
        return cls([path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.tf"))])

    def labelled(self, kind: str) -> dict[str, Any]:
        """The blocks of a kind with one label, such as variables."""
        return {
            name.strip('"'): body
            for each in self.blocks
            for block in each.get(kind, ())
            for name, body in block.items()
        }

    def declared(self) -> set[str]:
        """What expressions may refer to."""
        resources = {
            f"{kind}.{name}".replace('"', "")
            for each in self.blocks
            for block in each.get("resource", ())
            for kind, named in block.items()
            for name in named
        }
        return {
            *(f"var.{name}" for name in self.labelled("variable")),
            *(f"module.{name}" for name in self.labelled("module")),
            *resources,
        }

    def referred(self) -> set[str]:
        return set(REFERENCE.findall(self.text))


def arguments(module: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in module.items() if name != "source" and not name.startswith("__")}


def faults(root: Folder, module: Folder, template: Mapping[str, Any]) -> Iterator[str]:
    """Yield each name that nothing declares: of a variable, a resource, an output, a parameter."""
    for folder in (root, module):
        yield from sorted(folder.referred() - folder.declared())
        yield from sorted(f"unused {name}" for name in folder.declared() - folder.referred() if name.startswith("var."))
    called = arguments(root.labelled("module")["limiter"])
    variables = module.labelled("variable")
    required = {name for name, body in variables.items() if "default" not in body}
    yield from sorted({*called} - {*variables})
    yield from sorted(f"missing {name}" for name in required - {*called})
    yield from sorted({*re.findall(r"module\.limiter\.(\w+)", root.text)} - {*module.labelled("output")})
    yield from sorted({*OUTPUT.findall(module.text)} - {*template["Outputs"]})
    yield from sorted({*called.get("parameters", {})} - {*template["Parameters"]})


def test_every_name_in_the_terraform_module_is_declared_or_in_the_template(template: Mapping[str, Any]) -> None:
    root, module = Folder.read(TERRAFORM), Folder.read(TERRAFORM / "module")
    assert list(faults(root, module, template)) == []
    assert OUTPUT.findall(module.text)
    assert arguments(root.labelled("module")["limiter"])["parameters"]


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("TableName", "TableNames", "TableNames"),
        ("AggregatorMemory", "AggregatorMemories", "AggregatorMemories"),
        ("module.limiter.acquire_policy_arn", "module.limiter.policy_arn", "policy_arn"),
        ("each.value", "var.each_value", "var.each_value"),
        ("terraform_data.code", "terraform_data.upload", "terraform_data.upload"),
        ('release       = "0.1.0"', "", "missing release"),
    ],
)
def test_a_wrong_name_would_be_found(right: str, wrong: str, found: str, template: Mapping[str, Any]) -> None:
    folders = [Folder.read(folder) for folder in (TERRAFORM, TERRAFORM / "module")]
    assert any(right in folder.text for folder in folders)
    root, module = (Folder([folder.text.replace(right, wrong)]) for folder in folders)
    assert found in list(faults(root, module, template))


def test_terraform_and_the_command_line_agree_on_capabilities_sizes_and_commands() -> None:
    module = Folder.read(TERRAFORM / "module").text
    assert 'capabilities  = ["CAPABILITY_NAMED_IAM"]' in module
    assert len(printed("cfn-template", "--production").encode()) < LARGEST_BODY
    (command,) = re.findall(r'command = "zae-limiter (\S+) (\S+) --yes --name', module)
    assert command == ("upgrade", "--code-only")
    printed(command[0], command[1], "--help")


def write_templates(folder: Path) -> None:
    """Write what the README of the example has printed."""
    (folder / "zae-limiter.json").write_text(printed("cfn-template"), encoding="utf-8")
    printed("limits", "cfn-template", "--name", "my-app", "-f", str(MANIFEST), "--out", str(folder / "templates"))


def test_the_files_that_the_examples_name_are_those_that_the_commands_write(tmp_path: Path) -> None:
    write_templates(tmp_path)
    for text in (Folder.read(TERRAFORM).text, (CDK / "bin" / "app.ts").read_text(encoding="utf-8")):
        named = re.findall(r'"(?:\$\{path\.module\}/)?([\w/.-]+\.(?:json|yaml))"', text)
        assert len(named) == 2
        assert all((tmp_path / name).exists() for name in named)


@pytest.mark.slow
def test_the_cdk_synthesizes_the_printed_template(tmp_path: Path, template: Mapping[str, Any]) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no Node.js: apt-get install nodejs npm")
    shutil.copytree(CDK, tmp_path / "cdk", ignore=shutil.ignore_patterns("node_modules", "cdk.out"))
    write_templates(tmp_path / "cdk")
    for words in (
        ["npm", "ci", "--no-fund", "--no-audit"],
        ["npm", "run", "check"],
        ["npx", "cdk", "synth", "--quiet"],
    ):
        done = subprocess.run(
            words, check=False, cwd=tmp_path / "cdk", env={**os.environ, **OFFLINE}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    made = synthesized(tmp_path / "cdk", "Limiter")
    assert made["Parameters"].pop("AggregatorMemory")["Default"] == 512
    given = dict(template["Parameters"])
    del given["AggregatorMemory"]
    exports = {name for name in made["Outputs"] if name.startswith("ExportsOutput")}  # what the other stacks import
    outputs = {name: each for name, each in made["Outputs"].items() if name not in exports}
    assert {**made, "Parameters": made["Parameters"], "Outputs": outputs} == {**template, "Parameters": given}
    assert len(exports) == 1
    limits = synthesized(tmp_path / "cdk", "TenantAlpha")["Resources"]["TenantLimits"]["Properties"]
    assert (limits["Namespace"], limits["ServiceToken"]) == (
        "tenant-alpha",
        {"Fn::ImportValue": "my-app-LimitsProvisionerArn"},
    )
    check_delegation(synthesized(tmp_path / "cdk", "TenantBeta")["Resources"])


def check_delegation(resources: Mapping[str, Any]) -> None:
    """Check what `zae-limiter delegation add` and `delegation list --policy` make."""
    aliases = {
        each["Properties"]["FunctionName"]: {"Ref": name}
        for name, each in resources.items()
        if each["Type"] == "AWS::Lambda::Alias"
        and (each["Properties"]["Name"], each["Properties"]["FunctionVersion"]) == (alias_of("tenant-beta"), LATEST)
    }
    planner, provisioner = (aliases[function_name("my-app", kind)] for kind in KINDS)
    allowed = {
        name.rstrip("0123456789ABCDEF"): each["Properties"]["PolicyDocument"]["Statement"]
        for name, each in resources.items()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    }
    assert allowed == {
        "PlanPolicy": [{"Action": "lambda:InvokeFunction", "Effect": "Allow", "Resource": planner}],
        "ApplyPolicy": [{"Action": "lambda:InvokeFunction", "Effect": "Allow", "Resource": [planner, provisioner]}],
    }


def test_terraform_names_aliases_functions_and_versions_as_the_command_line_does() -> None:
    (module,) = [block for block in Folder.read(TERRAFORM / "module").blocks if "resource" in block]
    found = {
        kind.strip('"'): alias
        for each in module["resource"]
        for label, named in each.items()
        if label.strip('"') == "aws_lambda_alias"
        for kind, alias in named.items()
    }
    assert found.keys() == {*KINDS}
    for kind, alias in found.items():
        assert alias["function_name"].strip('"') == function_name("${var.name}", kind)
        assert alias["function_version"].strip('"') == LATEST
        assert alias["name"].strip("${}") == "local.aliases[each.key]"
    (aliases,) = [each["aliases"] for each in module["locals"] if "aliases" in each]
    assert 'namespace=>"ns-${replace(replace(namespace,"_","__"),".","_d")}"' in re.sub(r"\s", "", aliases)
    assert alias_of("a_b.c") == f"ns-{'a_b.c'.replace('_', '__').replace('.', '_d')}"


def synthesized(folder: Path, stack: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "cdk.out" / f"{stack}.template.json").read_text(encoding="utf-8"))
    return found


def test_the_page_shows_parts_of_the_examples() -> None:
    page = (EXAMPLES.parent / "docs" / "operate" / "terraform-cdk.md").read_text(encoding="utf-8")
    shown = [part for block in re.findall(r"```(?:hcl|ts)\n(.*?)```", page, re.DOTALL) for part in block.split("\n\n")]
    real = (TERRAFORM / "main.tf").read_text(encoding="utf-8") + (CDK / "bin" / "app.ts").read_text(encoding="utf-8")
    assert len(shown) == 7
    assert all(part.strip() in real for part in shown)
