"""`limits apply` over several namespaces: what is shown where, what is asked, and what an error leaves to see."""

import json
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest

from support.cli.limits_stack import Stack
from support.provisioner.provisions import limits, manifest
from zae_limiter.maintenance import ProvisionerLock, SyncMaintenance
from zae_limiter_cli.connection import Connection
from zae_limiter_manifest import dump, load, packing
from zae_limiter_provisioner import actions

ALPHA = dump(manifest("tenant-alpha", resources={"gpt-4": limits(500)}))
BETA = dump(manifest("tenant-beta", resources={"gpt-4": limits(1)}))
GOES_ON = (
    "the apply goes on in the Lambda, and holds the lock of tenant-alpha until {}\n"
    "watch it: zae-limiter limits status --follow --name my-app --namespace tenant-alpha\n"
    "stop it at its next checkpoint: zae-limiter limits stop --name my-app --namespace tenant-alpha\n"
)
ENDED = (
    "Error: stopped waiting; the lock of tenant-alpha is free now: the apply has ended, or it was sent and may "
    "still begin\n"
    "see whether it has ended, and what it did: zae-limiter limits status --name my-app --namespace tenant-alpha\n"
    "watch it if it has begun: zae-limiter limits status --follow --name my-app --namespace tenant-alpha\n"
)
MANY = dump(manifest("tenant-alpha", resources={f"r-{number}": limits(1) for number in range(500)}))


def both(stack: Stack) -> tuple[str, ...]:
    return ("-f", stack.write(ALPHA), "-f", stack.write(BETA, "beta.yaml"))


def hold_the_lock(stack: Stack, namespace: str) -> None:
    repository = stack.world.repository(namespace)
    lock = ProvisionerLock("abc", "cli (bob)", stack.world.clock.now_ms() + 1000)
    SyncMaintenance(repository).put_provisioner_state(
        replace(SyncMaintenance(repository).get_provisioner_state(), lock=lock), expected_serial=0
    )


def at_apply(stack: Stack, namespace: str, what: Any) -> None:
    """Do it once, when an apply of the namespace is answered."""

    def before(event: dict[str, Any]) -> None:
        if event["action"] == "apply" and event["namespace"] == namespace:
            stack.before = lambda _: None
            what()

    stack.before = before


def fail(stack: Stack) -> None:
    stack.failing = {"errorMessage": "no memory", "errorType": "Runtime.ExitError"}


def test_a_refusal_stands_on_standard_error_with_its_namespace_and_the_others_are_applied(stack: Stack) -> None:
    hold_the_lock(stack, "tenant-alpha")
    done = stack.run("apply", "--yes", *both(stack))
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: tenant-alpha: cli (bob) is applying, until ")
    assert "Failed" not in done.stdout
    assert done.stdout.endswith("\n\nNamespace tenant-beta\nApplied: 1 created, 0 updated, 0 deleted.\n")


def test_programs_find_a_refusal_in_their_document_too(stack: Stack) -> None:
    hold_the_lock(stack, "tenant-alpha")
    done = stack.run("apply", "--yes", *both(stack), "-o", "json")
    alpha, beta = json.loads(done.stdout)["namespaces"]
    assert (alpha["status"], alpha["errors"][0]["code"], beta["status"]) == ("failed", "locked", "applied")
    assert done.stderr.startswith("Error: tenant-alpha: ")


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_error_at_the_second_namespace_hides_nothing_of_the_first(stack: Stack, form: str) -> None:
    at_apply(stack, "tenant-alpha", lambda: fail(stack))
    done = stack.run("apply", "--yes", *both(stack), "-o", form)
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: my-app-limits-provisioner failed: no memory; its log says more\n",
    )
    if form == "json":
        assert [each["created"] for each in json.loads(done.stdout)["namespaces"]] == [1]
    else:
        assert done.stdout.endswith("\n\nNamespace tenant-alpha\nApplied: 1 created, 0 updated, 0 deleted.\n")


def test_an_error_while_going_on_hides_nothing_that_was_made(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "LISTED_BYTES", 1)  # one batch of 200 then
    at_apply(stack, "tenant-alpha", lambda: fail(stack))
    done = stack.run("apply", "--yes", "-f", stack.write(MANY))
    assert done.exit_code == 1
    assert done.stdout.endswith("Applied: 200 created, 0 updated, 0 deleted. 300 left to do.\n")
    assert done.stderr.endswith("Error: my-app-limits-provisioner failed: no memory; its log says more\n")


def test_a_request_whose_answer_is_lost_is_not_sent_again(stack: Stack) -> None:
    at_apply(stack, "tenant-alpha", lambda: setattr(stack, "dropping", True))
    done = stack.run("apply", "--yes", "-f", stack.write(ALPHA))
    assert (done.exit_code, stack.actions()) == (1, ["plan", "apply", "watch"])
    assert "Connection was closed" in done.stderr
    assert GOES_ON.format("it ends") in done.stderr


def interrupt() -> None:
    """Press Ctrl-C while the Lambda works."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_in_an_apply_says_that_it_goes_on_and_where_to_look(stack: Stack) -> None:
    at_apply(stack, "tenant-alpha", interrupt)
    done = stack.run("apply", "--yes", "--quiet", "-f", stack.write(ALPHA))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == ENDED
    assert stack.world.live() == load(ALPHA)


def test_ctrl_c_says_who_holds_the_lock_until_when_how_to_watch_and_how_to_stop(stack: Stack) -> None:
    def go_on() -> None:
        repository = stack.world.repository()
        state = SyncMaintenance(repository).get_provisioner_state()
        lock = ProvisionerLock("0123", "cli (ann)", 1_893_456_000_000)
        SyncMaintenance(repository).put_provisioner_state(replace(state, lock=lock), expected_serial=state.serial)
        interrupt()

    at_apply(stack, "tenant-alpha", go_on)
    done = stack.run("apply", "--yes", "--quiet", "-f", stack.write(ALPHA))
    until = "2030-01-01T00:00:00Z at most, for cli (ann)"
    assert done.stderr == f"Error: stopped waiting; {GOES_ON.format(until)}"


def test_ctrl_c_in_the_apply_of_a_saved_plan_says_so_too(stack: Stack) -> None:
    saved = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", saved)
    at_apply(stack, "tenant-alpha", interrupt)
    assert stack.run("apply", "--yes", saved).stderr == ENDED


def test_ctrl_c_at_the_second_namespace_hides_nothing_of_the_first(stack: Stack) -> None:
    at_apply(stack, "tenant-beta", interrupt)
    done = stack.run("apply", "--yes", "-f", stack.write(ALPHA), "-f", stack.write(BETA, "beta.yaml"))
    assert done.stdout.endswith("\n\nNamespace tenant-alpha\nApplied: 1 created, 0 updated, 0 deleted.\n")
    assert done.stderr == ENDED.replace("alpha", "beta")


def test_ctrl_c_before_anything_is_applied_says_nothing_of_that(stack: Stack) -> None:
    stack.before = lambda _: interrupt()
    done = stack.run("plan", "-f", stack.write(ALPHA))
    assert (done.exit_code, done.stderr.strip()) == (1, "Aborted!")


def test_a_connection_on_which_nothing_comes_for_long_is_kept_alive() -> None:
    client = Connection("my-app", endpoint_url="http://127.0.0.1:1").client("lambda")
    assert client.meta.config.tcp_keepalive


def overtake(stack: Stack) -> None:
    """Let somebody else apply between the plan and the apply."""

    def before(event: dict[str, Any]) -> None:
        if event["action"] == "plan":
            stack.before = lambda _: None
            stack.world.apply(load(BETA.replace("beta", "alpha")))

    stack.before = before


def test_what_is_planned_anew_is_shown_before_it_is_applied(stack: Stack) -> None:
    overtake(stack)
    done = stack.run("apply", "--yes", "-f", stack.write(ALPHA))
    assert done.exit_code == 0
    assert done.stdout.index("rpm: capacity 1 -> 500") < done.stdout.index("Applied: 0 created, 1 updated, 0 deleted.")
    assert done.stderr == "tenant-alpha: limits have changed since the plan: planned again\n"


@pytest.mark.usefixtures("on_a_terminal")
@pytest.mark.parametrize(("answers", "capacity"), [("y\ny\n", 500), ("y\nn\n", 1)])
def test_on_a_terminal_what_is_planned_anew_is_asked_about(stack: Stack, answers: str, capacity: int) -> None:
    overtake(stack)
    done = stack.run("apply", "-f", stack.write(ALPHA), input=answers)
    assert done.stderr.count("Apply? [y/N]") == 2
    assert "rpm: capacity 1 -> 500" in done.stdout
    assert done.exit_code == (0 if capacity == 500 else 1)
    assert stack.world.live().resources["gpt-4"].limits["rpm"].capacity == capacity


@pytest.mark.usefixtures("on_a_terminal")
@pytest.mark.parametrize("form", ["json", "markdown"])
def test_who_is_asked_sees_the_plan_whatever_the_form_of_the_output(stack: Stack, form: str) -> None:
    done = stack.run("apply", "-f", stack.write(ALPHA), "-o", form, input="y\n")
    assert done.stderr.index("+ resource gpt-4\n      + rpm: 500/min") < done.stderr.index("Apply? [y/N]")
    assert "Plan:" not in done.stdout
    if form == "json":
        assert json.loads(done.stdout.removeprefix(" y\n"))["kind"] == "applied"  # older click shows what is typed


def test_a_manifest_that_is_too_large_to_send_is_told_as_that(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing.pack, "__kwdefaults__", {"largest": 100})
    told = stack.error("plan", "-f", stack.write(ALPHA))
    assert told.startswith("tenant-alpha: the request is too large: ")
    assert "bytes compressed, at most 100 are allowed; " in told
    assert "version" not in told
    assert stack.paths == []
