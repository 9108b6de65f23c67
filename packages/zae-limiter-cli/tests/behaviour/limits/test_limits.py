import io
import json
import re

import pytest

from support.cli.limits_stack import PLANNER, Stack
from support.provisioner.provisions import rpm
from zae_limiter import Limit
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import json_schema, load, packing

ALPHA = """\
namespace: tenant-alpha
system:
  on_unavailable: allow
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500}
entities:
  user-1:
    resources:
      _default_:
        limits:
          rpm: {capacity: 5}
"""
BETA = "namespace: tenant-beta\nresources:\n  gpt-4:\n    limits:\n      rpm: {capacity: 1}\n"
MISTAKES = "namespace: tenant-alpha\nresource: {}\nsystem: {on_unavailable: maybe}\n"


def many(count: int, first: int = 0) -> str:
    rows = [f"  r-{number:02d}: {{limits: {{rpm: {{capacity: 1}}}}}}\n" for number in range(first, first + count)]
    return "namespace: tenant-alpha\nresources:\n" + "".join(rows) if rows else "namespace: tenant-alpha\n"


def test_a_plan_shows_what_would_change_and_writes_nothing(stack: Stack) -> None:
    told = stack.ok("plan", "-f", stack.write(ALPHA))
    assert told.splitlines()[0] == "Namespace tenant-alpha"
    assert "  + resource gpt-4\n      + rpm: 500/min\n" in told
    assert re.search(r"\nPlan: 3 to create, 0 to update, 0 to delete\.\n\nHash: sha256:[0-9a-f]{64}\n$", told)
    assert stack.world.items() == []
    assert stack.paths == [PLANNER]


def test_an_apply_that_needs_no_answer_shows_its_plan_and_does_it(stack: Stack) -> None:
    told = stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    assert told.endswith("Applied: 3 created, 0 updated, 0 deleted.\n")
    assert stack.world.live() == load(ALPHA)
    assert stack.ok("apply", "--yes", "-f", stack.write(ALPHA)) == "Namespace tenant-alpha\nNo changes.\n"
    told = stack.ok("apply", "--yes", "-f", stack.write(ALPHA.replace("500", "600")))
    assert "rpm: capacity 500 -> 600" in told
    assert told.endswith("Applied: 0 created, 1 updated, 0 deleted.\n")


def test_exit_code_2_says_that_there_are_changes_or_drift(stack: Stack) -> None:
    file = stack.write(ALPHA)
    stack.ok("plan", "-f", file, "--exit-code", code=2)
    assert stack.ok("diff", "-f", file, "--exit-code").endswith("Pending: 3 changes not applied yet.\n")
    stack.ok("apply", "--yes", "-f", file)
    stack.ok("plan", "-f", file, "--exit-code")
    assert stack.ok("diff", "-f", file, "--exit-code").endswith("No drift.\n")
    stack.world.repository().set_resource_defaults("gpt-4", rpm(400))
    stack.world.repository().delete_limits("user-1")
    told = stack.ok("diff", "-f", file, "--exit-code", code=2)
    assert "capacity is 400, declared 500" in told
    assert "deleted out of band" in told
    stack.ok("diff", "-f", file)


def test_diff_shows_what_is_pending_with_both_values_in_every_form(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    raised = stack.write(ALPHA.replace("500", "600"))
    assert stack.ok("diff", "-f", raised, "--exit-code").splitlines()[1:] == [
        "  ~ resource gpt-4 (pending)",
        "      rpm: capacity is 500, declared 600",
        "No drift. Pending: 1 change not applied yet.",
    ]
    row = "| resource `gpt-4` (pending) | `rpm: capacity is 500, declared 600` |\n"
    assert row in stack.ok("diff", "-f", raised, "-o", "markdown")
    (alpha,) = json.loads(stack.ok("diff", "-f", raised, "-o", "json"))["namespaces"]
    (pending,) = alpha["pending"]
    assert (alpha["drifted"], pending["before"], pending["limits"]) == (
        [],
        {"rpm": {"capacity": 500}},
        {"rpm": {"capacity": 600}},
    )
    assert [(each["field"], each["before"], each["after"]) for each in pending["fields"]] == [("capacity", 500, 600)]
    stack.ok("plan", "-f", raised, "--exit-code", code=2)


def test_unmanaged_items_are_counted_and_listed_where_asked_for(stack: Stack) -> None:
    file = stack.write(ALPHA)
    stack.world.repository().set_resource_defaults("by-hand", rpm(400))
    assert "Unmanaged: 1 item." in stack.ok("diff", "-f", file)
    assert "resource by-hand (unmanaged)" in stack.ok("diff", "-f", file, "--unmanaged")
    assert "by-hand" not in stack.ok("diff", "-f", file, "-o", "markdown")
    assert "| resource `by-hand` | unmanaged |" in stack.ok("diff", "-f", file, "--unmanaged", "-o", "markdown")


def test_files_may_be_several_a_directory_or_standard_input(stack: Stack) -> None:
    both = (stack.write(ALPHA), stack.write(BETA, "beta.yml"))
    stack.write("nothing", "README.md")
    for files in (("-f", both[0], "-f", both[1]), ("-f", str(stack.directory))):
        told = stack.ok("plan", *files)
        assert [line for line in told.splitlines() if line.startswith("Namespace")] == [
            "Namespace tenant-alpha",
            "Namespace tenant-beta",
        ]
    assert stack.run("plan", "-f", "-", input=BETA).stdout.startswith("Namespace tenant-beta\n")
    stack.write(BETA, "again.yaml")
    assert "is declared in" in stack.error("plan", "-f", str(stack.directory))


def test_an_empty_directory_and_a_missing_file_are_one_line(stack: Stack) -> None:
    empty = stack.directory / "empty"
    empty.mkdir()
    assert stack.error("plan", "-f", str(empty)) == f"{empty}: no *.yaml or *.yml file in this directory\n"
    assert stack.error("plan", "-f", "missing.yaml") == "missing.yaml: No such file or directory\n"


@pytest.mark.parametrize("command", ["plan", "apply", "diff", "validate", "cfn-template"])
def test_every_mistake_is_told_with_its_place_and_nothing_is_sent(stack: Stack, command: str) -> None:
    file = stack.write(MISTAKES)
    told = stack.run(command, "-f", file)
    assert (told.exit_code, told.stdout) == (1, "")
    assert [line.split(": ")[:2] for line in told.stderr.splitlines()[::3]] == [
        [f"{file}:2:1", "resource"],
        [f"{file}:3:26", "system.on_unavailable"],
    ]
    assert stack.paths == []


def test_validate_says_what_is_valid_and_json_lists_the_problems(stack: Stack) -> None:
    assert stack.ok("validate", "-f", stack.write(ALPHA)).startswith(
        "tenant-alpha: valid, 3 items, manifest hash sha256:"
    )
    assert stack.ok("validate", "-f", stack.write(BETA)).startswith("tenant-beta: valid, 1 item, manifest hash sha256:")
    assert json.loads(stack.ok("validate", "-f", stack.write(ALPHA), "-o", "json"))["problems"] == []
    problems = json.loads(stack.ok("validate", "-f", stack.write(MISTAKES), "-o", "json", code=1))["problems"]
    assert [(each["line"], each["column"]) for each in problems] == [(2, 1), (3, 26)]
    assert stack.paths == []


def test_validate_and_plan_warn_of_the_calls_that_lose_a_limit(stack: Stack) -> None:
    file = stack.write(
        "namespace: n\nsystem: {limits: {rpm: 1/min, tpm: 1/min}}\nresources: {r: {limits: {rpm: 1/min}}}\n"
    )
    line = "n: resources.r does not limit tpm (system does): calls on r are counted, and not limited by tpm"
    for command in ("validate", "plan"):
        done = stack.run(command, "-f", file)
        placed = f"{file}:3:13: {line} [left-out]"
        told, _, excerpt = done.stderr.partition("\n    3 | ")
        assert (done.exit_code, " ".join(told.split())) == (0, f"Warning: {placed}")
        assert [line.strip() for line in excerpt.splitlines()] == [
            "resources: {r: {limits: {rpm: 1/min}}}",
            f"|{' ' * 13}^",
        ]
        [warning] = json.loads(stack.ok(command, "-f", file, "-o", "json"))["warnings"]
        assert (warning["path"], warning["names"], warning["message"]) == ("resources.r", {"tpm": ["system"]}, line)
        assert (warning["name"], warning["line"], warning["column"]) == ("left-out", 3, 13)
    assert f"**Warnings**\n\n- `{placed}`\n" in stack.ok("plan", "-f", file, "-o", "markdown")
    drawn = stack.write('namespace: n\nentities: {"<b>@org/team": {}, "<B>@org/team": {}}\n')
    [warning] = stack.ok("plan", "-f", drawn, "-o", "markdown").partition("**Warnings**")[2].splitlines()[2:3]
    assert (warning[:3], warning[-1]) == ("- `", "`")
    names = "".join(f"  r-{each}: {{limits: {{rpm: 1/min}}}}\n" for each in range(30))
    many = stack.write(f"namespace: n\nsystem: {{limits: {{rpm: 1/min, tpm: 1/min}}}}\nresources:\n{names}")
    assert "Warning: and 10 more warnings" in stack.run("validate", "-f", many).stderr


def test_json_and_markdown_are_documents_of_their_own(stack: Stack) -> None:
    file = stack.write(ALPHA)
    kinds = []
    for command in ("plan", "diff", "apply"):
        words = (command, "-f", file, *(["--yes"] if command == "apply" else []), "-o")
        kinds.append(json.loads(stack.ok(*words, "json"))["kind"])
        assert stack.ok(*words, "markdown").startswith("### Limits of `tenant-alpha`\n")
    assert kinds == ["plan", "drift", "applied"]


def test_a_saved_plan_is_applied_as_it_was_planned_once(stack: Stack) -> None:
    out = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", out)
    assert stack.ok("apply", "--yes", out).endswith("Applied: 3 created, 0 updated, 0 deleted.\n")
    again = stack.run("apply", "--yes", out)
    assert (again.exit_code, "Error: tenant-alpha: somebody has applied since" in again.stderr) == (1, True)


def test_a_saved_plan_of_limits_that_have_changed_is_refused(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    out = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(ALPHA.replace("500", "600")), "--out", out)
    stack.world.repository().set_resource_defaults("gpt-4", rpm(3))
    assert "limits have changed since" in stack.run("apply", "--yes", out).stderr
    assert stack.world.repository().get_resource_defaults("gpt-4") == rpm(3)


def test_what_is_no_saved_plan_is_one_line(stack: Stack) -> None:
    out = stack.directory / "alpha.plan"
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", str(out))
    kept = out.read_text()
    for text in ("", "{}", "[]", kept.replace("500", "5000"), kept.replace("saved-plan", "plan"), ALPHA):
        out.write_text(text)
        told = stack.error("apply", "--yes", str(out))
        assert told.startswith(f"{out}: not a plan saved by `limits plan --out`")
        assert told.count("\n") == 1
    out.write_text(kept)
    assert "pass --name my-app" in stack.error("apply", "--yes", str(out), "-n", "other")
    assert stack.actions() == ["plan"]
    both = ("-f", stack.write(ALPHA), "-f", stack.write(BETA, "beta.yaml"))
    assert "one namespace, not of 2" in stack.error("plan", *both, "--out", str(out))
    assert "either manifests with -f, or" in stack.error("apply")
    assert "either manifests with -f, or" in stack.error("apply", "--yes", str(out), "-f", both[1])


def test_deletes_of_much_that_is_managed_must_be_allowed(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(many(10)))
    stack.ok("apply", "--yes", "-f", stack.write(many(7)))
    stack.ok("apply", "--yes", "-f", stack.write(many(10)))
    told = stack.error("apply", "--yes", "-f", stack.write(many(6)))
    assert told == (
        "tenant-alpha: the plan deletes 4 of 10 managed items, over 30 %: pass --allow-deletes to apply it\n"
    )
    out = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(many(0)), "--out", out)
    assert "deletes all that is managed: 10 of 10" in stack.error("apply", "--yes", out)
    assert stack.ok("apply", "--yes", out, "--allow-deletes").endswith("Applied: 0 created, 0 updated, 10 deleted.\n")


def test_a_manifest_from_standard_input_is_applied_with_yes_alone(stack: Stack) -> None:
    refused = stack.run("apply", "-f", "-", input=ALPHA)
    assert (refused.exit_code, "pass --yes to confirm" in refused.stderr) == (1, True)
    assert not stack.world.items()
    assert stack.run("apply", "-f", "-", "--yes", input=ALPHA).exit_code == 0
    assert stack.world.live() == load(ALPHA)


@pytest.mark.parametrize("answer", [None, "y\n", "n\n"])
def test_without_a_terminal_the_plan_is_shown_and_what_to_pass(stack: Stack, answer: str | None) -> None:
    out = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", out)
    stack.actions()
    for words in (("-f", stack.write(ALPHA)), (out,), ("-q", "-o", "json", out)):
        refused = stack.run("apply", *words, input=answer)
        assert (refused.exit_code, "+ resource gpt-4" in refused.output) == (1, True)
        told = refused.stderr.splitlines()[-1]
        assert told.startswith("Error: Apply? There is no terminal to answer on: pass --yes to confirm; --yes --expect")
    assert stack.actions() == ["plan"]
    assert not stack.world.items()
    _, _, passed = told.partition("; ")
    stack.ok("apply", "-f", stack.write(ALPHA), *passed.split()[:3])
    assert stack.world.live() == load(ALPHA)


def test_without_a_terminal_nothing_to_change_is_no_error(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    assert "No changes." in stack.ok("apply", "-f", stack.write(ALPHA))
    assert stack.run("apply", "-f", "-", input=ALPHA).exit_code == 0


def test_a_plan_without_changes_has_no_hash_for_people(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    told = stack.ok("plan", "-f", stack.write(ALPHA))
    assert told.endswith("No changes.\n")
    assert "Plan hash: `sha256:" in stack.ok("plan", "-f", stack.write(ALPHA), "-o", "markdown"), "a CI compares it"


def test_a_first_apply_over_limits_set_by_hand_says_what_it_manages(stack: Stack) -> None:
    stack.world.repository().set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 500)])
    file = stack.write("namespace: tenant-alpha\nresources: {gpt-4: {limits: {rpm: 500/min}}}\n")
    told = stack.ok("apply", "--yes", "-f", file)
    assert told.endswith("0 created, 1 updated, 0 deleted. The manifest manages 1 item from now on.\n")
    assert stack.ok("apply", "--yes", "-f", file).endswith("No changes.\n")


@pytest.mark.usefixtures("on_a_terminal")
@pytest.mark.parametrize(("answer", "applied"), [("y\n", True), ("n\n", False), ("", False)])
def test_on_a_terminal_it_asks(stack: Stack, answer: str, *, applied: bool) -> None:
    done = stack.run("apply", "-f", stack.write(ALPHA), input=answer)
    assert ("Apply? [y/N]" in done.stderr, "+ resource gpt-4" in done.stdout) == (True, True)
    assert (done.exit_code, bool(stack.world.items())) == (0 if applied else 1, applied)
    assert "Apply?" not in stack.run("apply", "--yes", "-f", stack.write(ALPHA)).output


def test_an_apply_that_is_overtaken_plans_anew_and_says_who_holds_the_lock(stack: Stack) -> None:
    def overtake(event: dict[str, object]) -> None:
        if event["action"] == "plan":
            stack.before = lambda _: None
            stack.world.apply(load(BETA.replace("beta", "alpha")))

    stack.before = overtake
    assert stack.run("apply", "--yes", "-f", stack.write(ALPHA)).exit_code == 0
    assert stack.actions() == ["plan", "apply", "plan", "apply"]
    assert stack.world.live() == load(ALPHA)


def test_one_item_that_fails_is_told_and_ends_with_code_1(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from zae_limiter.operations.errors import NotApplied
    from zae_limiter_provisioner import handler

    store = stack.world.store()

    def fault(operation: object) -> None:
        if "ENTITY#user-1" in repr(getattr(operation, "writes", "")):
            raise NotApplied("refused")

    store.fault = fault
    monkeypatch.setattr(handler, "table_of_environment", lambda: stack.world.table(store))
    told = stack.ok("apply", "--yes", "-f", stack.write(ALPHA), code=1)
    assert "  ! entity user-1/_default_: " in told
    assert told.endswith("Applied: 2 created, 0 updated, 0 deleted. 1 failed.\n")


def test_an_apply_goes_on_until_nothing_is_left(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from zae_limiter_provisioner import actions

    monkeypatch.setattr(actions, "LISTED_BYTES", 1)  # one batch of 200 then
    done = stack.run("apply", "--yes", "-f", stack.write(many(500)), "-o", "json")
    (told,) = json.loads(done.stdout)["namespaces"]
    assert (done.exit_code, told["created"], told["remaining"], len(told["changes"])) == (0, 500, 0, 500)
    assert done.stderr.splitlines()[0] == "tenant-alpha: 300 changes left, continuing"
    assert [each for each in stack.actions() if each != "watch"] == ["plan", "apply", "apply", "apply"]


def test_an_export_is_a_manifest_that_changes_nothing(stack: Stack) -> None:
    stack.world.apply(load(ALPHA))
    assert load(stack.ok("export", "-N", "tenant-alpha")) == load(ALPHA)
    out = stack.directory / "exported.yaml"
    assert stack.run("export", "-N", "tenant-alpha", "--out", str(out)).exit_code == 0
    stack.ok("plan", "-f", str(out), "--exit-code")


def test_an_export_has_entities_with_several_parents_and_at_any_depth(stack: Stack) -> None:
    repository = stack.world.repository()
    repository.create_entity("org")
    repository.create_entity("team", parent_id="org", cascade=True)
    repository.create_entity("key", parent_ids=["team", "org"], cascade=True)
    done = stack.run("export", "-N", "tenant-alpha")
    assert (done.exit_code, done.stderr, load(done.stdout).entities["key"].parents) == (0, "", ("team", "org"))
    file = stack.write(done.stdout)
    stack.ok("apply", "--yes", "-f", file)
    stack.ok("plan", "-f", file, "--exit-code")
    moved = stack.write(done.stdout.replace("[team, org]", "[org]"))
    told = stack.ok("plan", "-f", moved)
    assert "  ~ entity key\n      ~ parents: team, org -> org\n" in told


def test_a_mistyped_namespace_is_an_error(stack: Stack) -> None:
    told = "tenant-aplha: there is no namespace tenant-aplha in stack: check the name; "
    assert stack.error("export", "-N", "tenant-aplha").startswith(told)
    assert stack.error("status", "-N", "tenant-aplha").startswith(told)
    assert stack.world.items() == []


def test_a_state_shows_what_is_managed_and_by_whom(stack: Stack) -> None:
    stack.world.repository()
    assert "never applied" in stack.ok("status", "-N", "tenant-alpha")
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    told = stack.ok("status", "-N", "tenant-alpha")
    assert "  owner    cli\n" in told
    assert "Managed: 3 items.\n  system\n  resource gpt-4\n  entity user-1/_default_\n\nSERIAL" in told
    assert json.loads(stack.ok("status", "-N", "tenant-alpha", "-o", "json"))["state"]["owner"] == "cli"


def test_a_lock_is_shown_told_and_freed_by_its_id(stack: Stack) -> None:
    from dataclasses import replace

    from zae_limiter.maintenance import ProvisionerLock

    repository = stack.world.repository()
    lock = ProvisionerLock("abc", "cli (bob)", stack.world.clock.now_ms() + 1000)
    SyncMaintenance(repository).put_provisioner_state(
        replace(SyncMaintenance(repository).get_provisioner_state(), lock=lock), expected_serial=0
    )
    refused = stack.run("apply", "--yes", "-f", stack.write(ALPHA))
    assert (refused.exit_code, "cli (bob) is applying" in refused.output) == (1, True)
    assert "lock     abc, held by cli (bob) until 20" in stack.ok("status", "-N", "tenant-alpha")
    assert "the lock is not xyz" in stack.error("unlock", "-N", "tenant-alpha", "xyz", "--yes")
    assert "no terminal to answer on: pass --yes" in stack.error("unlock", "-N", "tenant-alpha", "abc")
    done, *state = stack.ok("unlock", "-N", "tenant-alpha", "abc", "--yes").splitlines()
    assert done == "tenant-alpha: the lock abc is released: an apply may begin now"
    assert "lock" not in "".join(state)
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))


def test_who_applies_is_claimed_in_the_audit_events(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA), "--principal", "alice", "--source", "9f3c2e1")
    (event,) = stack.world.repository().get_audit_events("$RESOURCE:gpt-4").events
    assert event.principal == "provisioner (claimed: alice, 9f3c2e1)"
    told = stack.error("apply", "--yes", "-f", stack.write(ALPHA), "--principal", "x" * 101)
    assert told == "principal must be 1 to 100 printable characters\n"


def test_the_schema_is_that_of_the_models(stack: Stack) -> None:
    assert json.loads(stack.ok("schema")) == json_schema()


def test_a_template_is_one_namespaces(stack: Stack) -> None:
    template = stack.ok("cfn-template", "-f", stack.write(ALPHA))
    assert "ServiceToken: !ImportValue 'my-app-LimitsProvisionerArn'" in template
    assert "TakeOver: true" in stack.ok("cfn-template", "-f", stack.write(ALPHA), "--take-over")
    both = ("-f", stack.write(ALPHA), "-f", stack.write(BETA, "beta.yaml"))
    assert "pass --out DIR" in stack.error("cfn-template", *both)
    out = stack.directory / "templates"
    stack.ok("cfn-template", *both, "--out", str(out))
    assert sorted(path.name for path in out.iterdir()) == ["tenant-alpha.template.yaml", "tenant-beta.template.yaml"]
    assert (out / "tenant-alpha.template.yaml").read_text() == template


def test_options_of_the_parent_hold_for_each_command_unless_it_has_its_own(stack: Stack) -> None:
    file = stack.write(ALPHA)
    stack.ok("plan", "-f", file)
    told = stack.error("plan", "-f", file, "--name", "other")
    assert told.startswith("there is no function other-limits-planner: has `zae-limiter deploy --name other`")


def test_a_function_that_fails_is_one_line(stack: Stack) -> None:
    stack.failing = {"errorMessage": "Task timed out after 900.00 seconds", "errorType": "Sandbox.Timedout"}
    told = stack.error("plan", "-f", stack.write(ALPHA))
    assert told == "my-app-limits-planner failed: Task timed out after 900.00 seconds; its log says more\n"


def test_an_answer_of_another_version_is_one_line(stack: Stack) -> None:
    stack.failing = None
    stack.before = lambda _: None
    from zae_limiter_provisioner import handler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "on_plan_event", lambda *_: {"status": "done"})
        assert "does its version fit?" in stack.error("plan", "-f", stack.write(ALPHA))


def test_colours_stand_only_on_a_terminal_and_without_no_color(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from zae_limiter_cli.terminal import Terminal

    class Screen(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Terminal.of(Screen()).colour
    assert "\x1b" not in stack.ok("plan", "-f", stack.write(ALPHA))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Terminal.of(Screen()).colour


def test_a_large_manifest_is_sent_compressed(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing.pack, "__kwdefaults__", {"largest": 1_000})
    assert "\nPlan: 90 to create, 0 to update, 0 to delete.\n" in stack.ok("plan", "-f", stack.write(many(90)))
    assert stack.actions() == ["packed"]


def test_a_large_plan_is_shown_by_its_kinds_before_it_is_applied_and_in_full_on_request(stack: Stack) -> None:
    file = stack.write(many(40))
    assert "  + resource r-20, and 19 more like this\n" in stack.ok("plan", "-f", file)
    assert stack.ok("plan", "-f", file, "--full").count("  + resource") == 40
    narrow = stack.ok("plan", "-f", file, "--filter", "resource r-0*")
    assert (narrow.count("  + resource"), "Shown: 10 of 40 changes" in narrow) == (10, True)
    assert narrow.splitlines()[-1] == stack.ok("plan", "-f", file).splitlines()[-1]  # the hash
    assert "Shown: 0 of 40 changes" in stack.ok("plan", "-f", file, "--entity", "key-a")
    assert "  + resource r-20 (pending), and 19 more like this\n" in stack.ok("diff", "-f", file)
    assert stack.ok("diff", "-f", file, "--full").count("  + resource") == 40
    assert "<details><summary>Each item</summary>" in stack.ok("plan", "-f", file, "-o", "markdown")
    assert stack.ok("apply", "--yes", "-f", file, "--full").count("  + resource") == 40


def test_the_pace_of_an_apply_reaches_the_provisioner(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA), "--changes-per-second", "50")
    assert stack.asked[-1]["changes_per_second"] == 50
    assert "0 is not in the range" in stack.error("apply", "-f", "x", "--changes-per-second", "0")
