"""What lives here: the commands of docs/operate/pull-requests.md, run in order, and its costs.
What never does: what a command does in detail (the CLI's own tests).
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.api import lint_all
from cfnlint.decode import decode_str
from click.testing import CliRunner

from support.cli.limits_stack import Stack, serving
from support.integration.provisioner_costs import table
from zae_limiter import SyncRepository
from zae_limiter_cli import confirmation
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import plain
from zae_limiter_manifest import load
from zae_limiter_provisioner import handler

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "operate" / "pull-requests.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```yaml (limits/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROLES = re.compile(r"^```yaml ci-roles.yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GITHUB = "token.actions.githubusercontent.com"
WORKFLOW = re.compile(r"^```yaml\n(# .github.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with serving(tmp_path) as stack:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(confirmation, "can_ask", lambda: True)
        monkeypatch.setattr(handler, "table_of_environment", stack.world.table)
        monkeypatch.setattr(handler, "log_as_json", lambda *_, **__: None)
        monkeypatch.setattr(SyncRepository, "open", lambda namespace, **_: stack.world.repository(namespace))
        yield stack


def test_the_commands_do_what_they_say(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("limits").mkdir()
    for name, text in FILE.findall(PAGE):
        Path(name).write_text(text, encoding="utf-8")
    told = []
    for line in "".join(BLOCK.findall(PAGE)).splitlines():
        command, _, comment = line.partition("#")
        words = shlex.split(command)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
            continue
        done = CliRunner().invoke(main, [words[1], "--endpoint-url", stack.url, *words[2:]], input="y\n")
        assert done.exit_code == 0, (line, done.output)
        if comment.strip().endswith("."):
            assert done.stdout.endswith(f"{comment.strip()}\n")
        told.append(words[1] if words[1] == "lift" else words[2])
    limits_commands = {"schema", "validate", "plan", "apply", "diff", "export", "status", "cfn-template", "rollback"}
    assert {*told} == limits_commands | {"set-limits", "show", "lift"}
    assert Path("templates/tenant-alpha.template.yaml").exists()
    assert stack.world.live() == load(Path("limits/tenant-alpha.yaml").read_text())


def jobs() -> dict[str, Any]:
    (text,) = WORKFLOW.findall(PAGE)
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def test_the_workflow_is_yaml_and_its_commands_are_those_of_the_page() -> None:
    ran = " ".join(step.get("run", "") for job in jobs().values() for step in job["steps"])
    for command in (
        "plan -f limits/ --output markdown",
        "apply -f limits/ --lock-timeout 300 --yes",
        "diff -f limits/ --exit-code",
    ):
        assert f"zae-limiter limits {command}" in ran
        assert f"zae-limiter limits {command}" in "".join(BLOCK.findall(PAGE))


def test_the_example_project_has_the_workflow_of_the_page() -> None:
    (text,) = WORKFLOW.findall(PAGE)
    assert (DOCS.parent / "examples/github-actions/.github/workflows/limits.yaml").read_text(encoding="utf-8") == text


def test_only_the_job_of_a_push_to_main_applies_and_has_the_role_for_it() -> None:
    found = {name: json.dumps(job["steps"]) for name, job in jobs().items()}
    assert [name for name, steps in found.items() if "limits apply" in steps] == ["apply"]
    assert [name for name, steps in found.items() if "LIMITS_APPLY_ROLE" in steps] == ["apply"]
    assert jobs()["apply"]["if"] == "github.event_name == 'push'"
    assert "LIMITS_PLAN_ROLE" in found["plan"]


MAIN, PULL_REQUEST = "repo:acme/limits:ref:refs/heads/main", "repo:acme/limits:pull_request"
STRANGERS = (
    *(
        "repo:acme/limits:ref:refs/heads/mainly",
        "repo:acme/limits:ref:refs/heads/topic",
        "repo:acme/other:pull_request",
    ),
    *(
        "repo:evil/limits:ref:refs/heads/main",
        "repo:acme/limits:environment:main",
        "repo:acme/limits:ref:refs/tags/main",
    ),
)


def ci_roles() -> dict[str, Any]:
    """The properties of the roles of the page's template, for the repository acme/limits."""
    text = ROLES.findall(PAGE)[0].replace("${Repository}", "acme/limits")
    template = json.loads(json.dumps(decode_str(text)[0]))
    return {name: each["Properties"] for name, each in template["Resources"].items()}


def trusts(role: dict[str, Any], subject: str, audience: str = "sts.amazonaws.com") -> bool:
    """Whether a token of GitHub with this subject may assume the role: every condition is an exact comparison."""
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "sts:AssumeRoleWithWebIdentity")
    assert statement["Principal"]["Federated"]["Fn::Sub"].endswith(f":oidc-provider/{GITHUB}")
    ((operator, conditions),) = statement["Condition"].items()
    assert (operator, set(conditions)) == ("StringEquals", {f"{GITHUB}:aud", f"{GITHUB}:sub"})
    told = {"aud": audience, "sub": subject}
    return all(told[key.rpartition(":")[2]] in _texts(wanted) for key, wanted in conditions.items())


def _texts(wanted: Any) -> list[str]:
    return [
        each["Fn::Sub"] if isinstance(each, dict) else each
        for each in (wanted if isinstance(wanted, list) else [wanted])
    ]


def test_a_pull_request_gets_the_role_that_plans_and_only_main_the_one_that_applies() -> None:
    roles = ci_roles()
    assert {name: (trusts(role, PULL_REQUEST), trusts(role, MAIN)) for name, role in roles.items()} == {
        "PlanRole": (True, True),
        "ApplyRole": (False, True),
    }
    for role in roles.values():
        assert not any(trusts(role, subject) for subject in STRANGERS)
        assert not trusts(role, MAIN, audience="https://github.com/acme")
    policies = {name: role["ManagedPolicyArns"] for name, role in roles.items()}
    assert policies == {"PlanRole": [{"Ref": "PlanPolicyArn"}], "ApplyRole": [{"Ref": "ApplyPolicyArn"}]}


def test_the_template_of_the_roles_is_clean_and_its_parameters_are_outputs_of_the_stack() -> None:
    (text,) = ROLES.findall(PAGE)
    assert [each for each in lint_all(text) if each.rule.severity != "informational"] == []
    outputs = plain("my-app", StackOptions())["Outputs"]
    parameters = decode_str(text)[0]["Parameters"]
    for name in ("PlanPolicyArn", "ApplyPolicyArn"):
        assert parameters[name]["Description"].split()[1] in outputs


def between(page: str, name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return str(found).strip()


@pytest.mark.long
def test_the_costs_are_what_is_counted() -> None:
    assert between(PAGE, "costs: provisioner") == table()
