"""What lives here: `zae-limiter limits` as operators run it, on a local stack with the provisioner's real zip.
What never does: every option (the CLI's own tests).
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from stack_replies import response_url

from declared import MANIFEST, changed, many
from embedded import COMMAND, Embedded, local_stack
from emulators import dynoxide
from fetch import Unavailable
from zae_limiter import Limit, SyncRepository
from zae_limiter_manifest import StackProperties, dump, load

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/tenants/0f1e2d3c"


@pytest.fixture(scope="module", params=["moto", "dynoxide"])
def embedded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "dynoxide":
            patch.setenv("ZAEL_DYNOXIDE", _dynoxide())
        with local_stack(tmp_path_factory.mktemp("state"), plane=request.param) as stack:
            yield stack


def _dynoxide() -> str:
    try:
        return dynoxide()(0)[0]
    except Unavailable as reason:
        pytest.skip(f"dynoxide: {reason}")


class Shell:
    """An operator's shell, and their directory."""

    def __init__(self, stack: Embedded, directory: Path) -> None:
        self.stack = stack
        self.directory = directory
        self.environment = {**os.environ, **stack.environment, "ZAEL_STACK": stack.name}

    def file(self, text: str, name: str = "alpha.yaml") -> str:
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run(self, *args: str, code: int = 0) -> str:
        """What a command says on standard output."""
        command = [COMMAND, "limits", *args]
        done = subprocess.run(
            command,
            env=self.environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def repository(self, namespace: str) -> SyncRepository:
        return SyncRepository.open(
            namespace, stack=self.stack.name, endpoint_url=self.stack.endpoint_url, region="us-east-1", read_timeout=30
        )

    def items(self) -> list[str]:
        client = self.stack.client("dynamodb")
        return sorted(json.dumps(item, sort_keys=True) for item in client.scan(TableName=self.stack.name)["Items"])


@pytest.fixture
def shell(embedded: Embedded, tmp_path: Path) -> Shell:
    return Shell(embedded, tmp_path)


def named(namespace: str, text: str = MANIFEST) -> str:
    return text.replace("tenant-alpha", namespace)


def test_the_way_of_a_manifest_from_a_file_to_what_an_acquire_obeys(shell: Shell) -> None:
    file = shell.file(MANIFEST)
    assert "valid" in shell.run("validate", "-f", file)
    before = shell.items()
    assert shell.run("plan", "-f", file, "--exit-code", code=2).endswith(
        "Plan: 4 to create, 0 to update, 0 to delete.\n"
    )
    assert shell.items() == before
    assert shell.run("apply", "-f", file).endswith("Applied: 4 created, 0 updated, 0 deleted.\n")
    assert shell.run("apply", "-f", file).endswith("No changes.\n")
    with shell.repository("tenant-alpha") as repository:
        found, on_unavailable, source = repository.resolve_limits("user-123", "gpt-4")
        assert (list(found), on_unavailable, source) == ([Limit.per_minute("rpm", 500)], "allow", "entity")
        raised = shell.file(dump(changed(600)), "raised.yaml")
        assert "rpm: capacity 500 -> 600" in shell.run("apply", "-f", raised)
        repository.set_resource_defaults("by-hand", [Limit.per_minute("rpm", 7)])
        repository.delete_limits("user-123")
        assert "deleted out of band" in shell.run("diff", "-f", raised, "--exit-code", code=2)
        shell.run("apply", "-f", raised)
        assert shell.run("diff", "-f", raised, "--exit-code").endswith("No drift. Unmanaged: 1 item.\n")
        fewer = yaml.safe_load(MANIFEST)
        del fewer["entities"]
        shell.run("apply", "-f", shell.file(yaml.safe_dump(fewer), "fewer.yaml"))
        assert repository.list_resources_with_defaults() == ["by-hand", "gpt-4"]
        assert repository.get_limits("user-123", "gpt-4") == []
    state = json.loads(shell.run("state", "-N", "tenant-alpha", "-o", "json"))["state"]
    assert (state["owner"], state["lock"], state["managed"]["entities"]) == ("cli", None, {})


def test_a_saved_plan_an_export_and_500_entities(shell: Shell, request: pytest.FixtureRequest) -> None:
    # moto copies its whole table for every transaction
    count = 500 if "dynoxide" in request.node.name else 50
    text = named("tenant-many", dump(many(count)))
    wanted = shell.file(text)
    saved = str(shell.directory / "many.plan")
    shell.run("plan", "-f", wanted, "--out", saved)
    assert shell.run("apply", saved).endswith(f"Applied: {count} created, 0 updated, 0 deleted.\n")
    shell.run("apply", saved, code=1)
    exported = shell.run("export", "-N", "tenant-many")
    assert exported == text
    shell.run("plan", "-f", wanted, "--exit-code")


def test_events_of_a_stack_are_answered_by_the_zip_at_a_real_response_url(shell: Shell) -> None:
    functions = shell.stack.client("lambda")
    manifest = load(named("tenant-stack"))
    texts = json.loads(json.dumps(StackProperties(manifest).to_dict()), parse_int=str)

    def send(kind: str, **fields: Any) -> dict[str, Any]:
        with response_url() as replies:
            event = {
                "RequestType": kind,
                "RequestId": f"request-{kind}",
                "ResponseURL": replies.url,
                "StackId": STACK_ID,
                "LogicalResourceId": "TenantLimits",
                "ResourceProperties": texts,
                **fields,
            }
            functions.invoke(FunctionName=f"{shell.stack.name}-limits-provisioner", Payload=json.dumps(event))
            return replies.only

    created = send("Create")
    assert (created["Status"], created["Data"]["Created"]) == ("SUCCESS", 4)
    assert "another owner" not in shell.run("diff", "-f", shell.file(dump(manifest)), "--exit-code")
    shell.run("apply", "-f", shell.file(dump(manifest)), code=1)
    physical = {"PhysicalResourceId": created["PhysicalResourceId"]}
    failed = send("Update", **physical, ResourceProperties={"Namespace": "tenant-stack", "Bad": "1"})
    assert (failed["Status"], failed["PhysicalResourceId"]) == ("FAILED", created["PhysicalResourceId"])
    assert send("Delete", **physical)["Status"] == "SUCCESS"
    assert shell.run("export", "-N", "tenant-stack") == "namespace: tenant-stack\n"
