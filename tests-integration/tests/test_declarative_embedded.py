"""What lives here: `zae-limiter limits` as operators run it, on a local stack with the provisioner's real zip.
What never does: every option (the CLI's own tests).
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.integration.cfn_resource import resource
from support.integration.declared import MANIFEST, changed, many
from support.integration.embedded import COMMAND, Embedded, local_stack
from support.integration.emulators import dynoxide
from support.integration.fetch import Unavailable
from support.integration.proxy import Fault, between
from support.integration.trees import MOVED, TREE, takes
from zae_limiter import Limit, SyncRepository
from zae_limiter_manifest import dump, load

ON_MOTO = pytest.mark.parametrize("embedded", ["moto"], indirect=True)
ON_BOTH = pytest.mark.parametrize("embedded", [pytest.param("moto", marks=pytest.mark.long), "dynoxide"], indirect=True)


@pytest.fixture(scope="module")
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

    def run(self, *args: str, code: int = 0, group: str = "limits") -> str:
        """What a command says on standard output."""
        return self._done(args, code, group).stdout

    def error(self, *args: str) -> str:
        """What a command that fails says on standard error."""
        return self._done(args, 1).stderr

    def _done(self, args: Sequence[str], code: int, group: str = "limits") -> subprocess.CompletedProcess[str]:
        command = [COMMAND, group, *args]
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
        return done

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
    return text.replace("tenant-alpha", namespace).replace("tenant-tree", namespace)


@ON_BOTH
def test_the_way_of_a_manifest_from_a_file_to_what_an_acquire_obeys(shell: Shell) -> None:
    file = shell.file(MANIFEST)
    before = shell.items()
    planned = shell.run("plan", "-f", file, "--exit-code", code=2)
    assert "\nPlan: 4 to create, 0 to update, 0 to delete.\n" in planned
    assert shell.items() == before
    words = ("apply", "--yes", "-f", file, "--expect-hash", planned.split()[-1])
    assert shell.run(*words).endswith("Applied: 4 created, 0 updated, 0 deleted.\n")
    with shell.repository("tenant-alpha") as repository:
        found, on_unavailable, source = repository.resolve_limits("user-123", "gpt-4")
        assert (list(found), on_unavailable, source) == ([Limit.per_minute("rpm", 500)], "allow", "entity")
        raised = shell.file(dump(changed(600)), "raised.yaml")
        assert "rpm: capacity 500 -> 600" in shell.run("apply", "--yes", "-f", raised)
        repository.set_resource_defaults("by-hand", [Limit.per_minute("rpm", 7)])
        repository.delete_limits("user-123")
        assert "deleted out of band" in shell.run("diff", "-f", raised, "--exit-code", code=2)
        fewer = yaml.safe_load(MANIFEST)
        del fewer["entities"]
        shell.run("apply", "--yes", "-f", shell.file(yaml.safe_dump(fewer), "fewer.yaml"))
        assert repository.list_resources_with_defaults() == ["by-hand", "gpt-4"]
        assert repository.get_limits("user-123", "gpt-4") == []


@pytest.mark.long
@ON_BOTH
def test_what_is_not_confirmed_or_not_as_expected_is_not_applied(shell: Shell) -> None:
    file = shell.file(MANIFEST.replace("tenant-alpha", "tenant-beta"))
    assert "valid" in shell.run("validate", "-f", file)
    before = shell.items()
    assert "pass --yes" in shell.error("apply", "-f", file)
    assert "as expected" in shell.error("apply", "--yes", "-f", file, "--expect-hash", "sha256:0")
    assert shell.items() == before
    shell.run("apply", "--yes", "-f", file)
    assert shell.run("apply", "--yes", "-f", file).endswith("No changes.\n")
    assert shell.run("diff", "-f", file, "--exit-code").endswith("No drift.\n")
    state = json.loads(shell.run("state", "-N", "tenant-beta", "-o", "json"))["state"]
    assert (state["owner"], state["lock"]) == ("cli", None)


@pytest.mark.long
@ON_BOTH
def test_a_tree_is_made_from_a_file_and_exported_as_it_is(shell: Shell) -> None:
    file = shell.file(TREE)
    planned = shell.run("plan", "-f", file)
    assert "  + entity key-1\n      + parent: acme\n      + cascade: true\n" in planned
    assert shell.run("apply", "--yes", "-f", file).endswith("Applied: 6 created, 0 updated, 0 deleted.\n")
    exported = shell.run("export", "-N", "tenant-tree")
    assert exported == TREE
    assert "\nNo changes.\n" in shell.run("plan", "-f", shell.file(exported, "exported.yaml"), "--exit-code")
    with shell.repository("tenant-tree") as repository:
        assert takes(repository, "key-1") == ["taken", "taken", "acme"]


@pytest.mark.long
@ON_BOTH
def test_a_tree_is_moved_and_removed_and_children_of_others_guard_it(shell: Shell) -> None:
    file, moved = shell.file(named("tenant-moved", TREE)), shell.file(named("tenant-moved", MOVED), "moved.yaml")
    shell.run("apply", "--yes", "-f", file)
    with shell.repository("tenant-moved") as repository:
        repository.update_entity("key-2", name="by hand")
        repository.create_entity("by-hand", parent_id="key-2")
        drift = shell.run("diff", "-f", file, "--exit-code", "--unmanaged", code=2)
        assert '~ entity key-2 (changed out of band)\n      name is "by hand", not declared' in drift
        assert "  entity by-hand (unmanaged)\n" in drift
        guarded = "an entity with children cannot be removed: entity key-2 (1)"
        assert guarded in shell.error("apply", "--yes", "--allow-deletes", "-f", moved)
        repository.delete_entity("by-hand")
        done = shell.run("apply", "--yes", "--allow-deletes", "-f", moved)
        assert done.endswith("Applied: 1 created, 3 updated, 2 deleted.\n")
        assert [each.entity_id for each in repository.get_children("globex")] == ["acme", "key-1"]
        assert repository.get_entity("key-2") is None
    with shell.repository("tenant-moved") as repository:
        assert takes(repository, "key-1") == ["globex", "globex", "globex"]
    state = json.loads(shell.run("state", "-N", "tenant-moved", "-o", "json"))["state"]
    assert state["managed"]["records"] == ["acme", "globex", "key-1"]
    shell.run("apply", "--yes", "--allow-deletes", "-f", shell.file("namespace: tenant-moved\n", "empty.yaml"))
    assert shell.run("export", "-N", "tenant-moved") == "namespace: tenant-moved\n"


@pytest.mark.long
@ON_MOTO
def test_what_was_changed_out_of_band_is_named_with_its_values_and_repaired(shell: Shell) -> None:
    file = shell.file(named("tenant-drift"))
    shell.run("apply", "--yes", "-f", file)
    with shell.repository("tenant-drift") as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 9), Limit.per_minute("tpm", 8)])
        repository.delete_limits("user-123", "gpt-4")
        told = shell.run("diff", "-f", file, "--exit-code", code=2)
        assert "~ resource gpt-4 (changed out of band)\n      rpm: capacity is 9, declared 1000" in told
        assert "- entity user-123/gpt-4 (deleted out of band)\n      rpm: capacity is absent, declared 500" in told
        assert shell.run("apply", "--yes", "-f", file).endswith("Applied: 1 created, 1 updated, 0 deleted.\n")
        assert shell.run("diff", "-f", file, "--exit-code").endswith("No drift.\n")
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 500)]


@pytest.mark.long
@ON_MOTO
def test_an_override_is_shown_by_name_and_no_apply_touches_it(shell: Shell) -> None:
    file, place = shell.file(named("tenant-override")), ("user-123", "-r", "gpt-4", "-N", "tenant-override")
    shell.run("apply", "--yes", "-f", file)
    assert "Override until " in shell.run("set-limits", *place, "-l", "rpm:9", "--until", "2h", group="entity")
    shown = "  = entity user-123/gpt-4 (override until 20"
    for command in (("plan", "--exit-code"), ("diff", "--exit-code")):
        assert shown in shell.run(*command, "-f", file)
    raised = shell.file(named("tenant-override", dump(changed(600))), "raised.yaml")
    assert shell.run("apply", "--yes", "-f", raised).endswith("Applied: 0 created, 1 updated, 0 deleted.\n")
    assert shell.run("export", "-N", "tenant-override") == dump(load(Path(raised).read_text()))
    (effective,) = json.loads(shell.run("show", *place, "-o", "json", group="entity"))["resources"]
    assert (effective["source"], effective["limits"]["rpm"]["capacity"]) == ("entity", 9)
    assert effective["levels"][0]["limits"]["rpm"]["capacity"] == 600
    shell.run(*place, "--end", "--yes", group="lift")
    assert shown not in shell.run("plan", "-f", raised, "--exit-code")
    audit = json.loads(shell.run("list", "--entity", "user-123", "-N", place[-1], "-o", "json", group="audit"))["items"]
    assert [each["action"] for each in audit[:3]] == ["override_deleted", "limits_set", "override_set"]


@pytest.mark.long
@ON_MOTO
def test_deletes_of_over_30_percent_must_be_allowed(shell: Shell) -> None:
    shell.run("apply", "--yes", "-f", shell.file(named("tenant-few", dump(many(10)))))
    fewer = shell.file(named("tenant-few", dump(many(6))))
    assert shell.error("apply", "--yes", "-f", fewer) == (
        "Error: tenant-few: the plan deletes 4 of 10 managed items, over 30 %: pass --allow-deletes to apply it\n"
    )
    assert shell.run("apply", "--yes", "-f", fewer, "--allow-deletes").endswith(
        "Applied: 0 created, 0 updated, 4 deleted.\n"
    )


@pytest.mark.long
@ON_MOTO
def test_a_saved_plan_is_refused_when_somebody_has_applied_or_limits_have_changed(shell: Shell) -> None:
    file, saved = shell.file(named("tenant-saved")), str(shell.directory / "saved.plan")
    shell.run("plan", "-f", file, "--out", saved)
    shell.run("apply", "--yes", "-f", file)
    assert "tenant-saved: somebody has applied since: " in shell.error("apply", "--yes", saved)
    shell.run("plan", "-f", shell.file(named("tenant-saved", dump(changed(600)))), "--out", saved)
    with shell.repository("tenant-saved") as repository:
        repository.set_limits("user-123", [Limit.per_minute("rpm", 9)], "gpt-4")
        assert "tenant-saved: limits have changed since" in shell.error("apply", "--yes", saved)
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 9)]


@contextmanager
def refusing(shell: Shell, about: str) -> Iterator[None]:
    """A table that refuses the provisioner's writes about something."""
    functions, name = shell.stack.client("lambda"), f"{shell.stack.name}-limits-provisioner"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]

    def point(more: dict[str, str]) -> None:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**variables, **more}})

    with between(shell.stack.endpoint_url) as proxy:
        proxy.faults.append(Fault("throttle", "TransactWriteItems", about))
        point({"AWS_ENDPOINT_URL_DYNAMODB": proxy.url})
        try:
            yield
        finally:
            point({})


@pytest.mark.long
@ON_BOTH
def test_what_cannot_be_written_is_told_and_stays_pending_and_the_rest_is_applied(shell: Shell) -> None:
    file = shell.file(named("tenant-part", dump(many(30))))  # two transactions
    with refusing(shell, "a456-000000000029"):
        told = shell.run("apply", "--yes", "-f", file, code=1)
    assert "  ! entity 123e4567-e89b-12d3-a456-000000000029/gpt-4: " in told
    assert told.endswith("Applied: 25 created, 0 updated, 0 deleted. 5 failed.\n")
    assert "\nPlan: 5 to create, 0 to update, 0 to delete.\n" in shell.run("plan", "-f", file, "--exit-code", code=2)
    assert shell.run("apply", "--yes", "-f", file).endswith("Applied: 5 created, 0 updated, 0 deleted.\n")


TWENTY_MISTAKES = """\
namespace: 1a
systems: {}
system:
  on_unavailable: allowed
  limits: {}
resource: {}
resources:
  _default_:
    limits:
      wcu: {capacity: 10}
      rpm: {capacity: "10", burst: x, refil_amount: 5, refill_period: 1.5}
      tpm: {burst: 5}
      x: {capacity: 10, burst: 9, refill_period: yes}
  gpt-4:
    limits: null
  gpt-4: {limits: {a: {capacity: 1}}}
entities:
  user-2: {resources: {}}
  user-3: []
  user-4:
    resources:
      gpt-4: {limits: {wcu: {capacity: -1}}}
"""
PLACES = [
    *(
        "1:12",
        "2:1",
        "4:19",
        "5:11",
        "6:1",
        "8:3",
        "10:7",
        "11:23",
        "11:36",
        "11:39",
        "11:71",
        "12:7",
        "13:32",
        "13:50",
    ),
    *("15:13", "16:3", "18:23", "19:11", "22:24", "22:40"),
]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_twenty_mistakes_are_twenty_lines_with_their_places_and_nothing_is_sent(tmp_path: Path, command: str) -> None:
    file = tmp_path / "alpha.yaml"
    file.write_text(TWENTY_MISTAKES, encoding="utf-8")
    words = [COMMAND, "limits", command, "-f", str(file), "--endpoint-url", "http://127.0.0.1:1"]  # nobody is there
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [line for line in done.stderr.removeprefix("Error: ").splitlines() if line.startswith(str(file))]
    assert [line.removeprefix(f"{file}:").split(": ")[0] for line in lines] == PLACES


@pytest.mark.long
@ON_BOTH
def test_a_saved_plan_an_export_and_500_entities(shell: Shell, request: pytest.FixtureRequest) -> None:
    # moto is slow: test_local_stress has more
    count = 500 if "dynoxide" in request.node.name else 50
    text = named("tenant-many", dump(many(count)))
    wanted = shell.file(text)
    saved = str(shell.directory / "many.plan")
    shell.run("plan", "-f", wanted, "--out", saved)
    assert shell.run("apply", "--yes", saved).endswith(f"Applied: {count} created, 0 updated, 0 deleted.\n")
    shell.run("apply", "--yes", saved, code=1)
    exported = shell.run("export", "-N", "tenant-many")
    assert exported == text
    shell.run("plan", "-f", wanted, "--exit-code")


@pytest.mark.long
@ON_MOTO
def test_events_of_a_stack_are_answered_by_the_zip_at_a_real_response_url(shell: Shell) -> None:
    functions, manifest = shell.stack.client("lambda"), load(named("tenant-stack"))

    def invoke(event: dict[str, Any]) -> None:
        functions.invoke(FunctionName=f"{shell.stack.name}-limits-provisioner", Payload=json.dumps(event))

    with resource(invoke) as stack:
        created = stack.do("Create", manifest)
        assert (created["Status"], created["Data"]["Created"]) == ("SUCCESS", 4)
        assert "another owner" not in shell.run("diff", "-f", shell.file(dump(manifest)), "--exit-code")
        assert "tenant-stack: " in shell.error("apply", "--yes", "-f", shell.file(dump(manifest)))
        failed = stack.do("Update", manifest, Bad="1")
        assert (failed["Status"], failed["PhysicalResourceId"]) == ("FAILED", created["PhysicalResourceId"])
        assert stack.do("Delete", manifest)["Status"] == "SUCCESS"
    assert shell.run("export", "-N", "tenant-stack") == "namespace: tenant-stack\n"
