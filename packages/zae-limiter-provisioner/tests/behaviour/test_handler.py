import base64
import json
import subprocess
import sys
import tracemalloc
import zlib
from typing import Any

import pytest

from support.core.namesake import FOREIGN, TOLD
from support.provisioner.provisions import EVERY_LEVEL, World, entities, limits, manifest
from zae_limiter.operations.values import Put, Scan
from zae_limiter_manifest import Answer, pack, packing, unpack
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.handler import on_event, on_plan_event

NO_TABLE = "http://127.0.0.1:1"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_DYNAMODB": NO_TABLE,
    "ZAEL_STACK": "my-app",
}


@pytest.fixture
def over_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler's table is the world's."""
    monkeypatch.setattr(handler, "table_of_environment", world.table)


@pytest.mark.parametrize("event", [{"action": "destroy"}, {}, {"action": ["apply"]}, "apply", None], ids=str)
def test_an_unknown_action_is_an_error_that_names_the_actions_there_are(event: Any) -> None:
    (error,) = on_event(event, None)["errors"]
    assert error["code"] == "unknown_action"
    assert error["message"].endswith(
        "the actions are: plan, apply, diff, export, state, unlock, watch, stop, history, show, bounds, bind, unbind"
    )


def test_every_mistake_of_a_manifest_is_an_error_with_its_path() -> None:
    bad = {"namespace": "tenant-alpha", "resources": {"gpt-4": {"limits": {"rpm": {"capacity": -1}}}}, "more": 1}
    done = on_event({"action": "apply", "manifest": bad}, None)
    assert (done["status"], done["created"], done["namespace"]) == ("failed", 0, "tenant-alpha")
    assert {error["path"] for error in done["errors"]} == {"more", "resources.gpt-4.limits.rpm.capacity"}


@pytest.mark.usefixtures("over_memory")
def test_the_log_of_an_apply_has_the_warnings_of_its_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    bare = manifest(resources={"gpt-4": {"limits": {"usd": {"capacity": 250}}}})
    for action in ("plan", "apply"):
        on_event({"action": action, "manifest": bare.to_dict()}, None)
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    planned, applied = [each for each in lines if each["message"] == "a request"]
    assert "warnings" not in planned
    [warning] = applied["warnings"]
    assert warning.startswith("resources.gpt-4.limits.usd is 250/min, tokens that price lists count as $0.00025")


@pytest.mark.parametrize("manifest", [None, "namespace: a", []], ids=str)
def test_what_is_no_manifest_is_an_error(manifest: Any) -> None:
    done = on_event({"action": "apply", "manifest": manifest}, None)
    assert [error["code"] for error in done["errors"]] == ["invalid_manifest"]
    assert done["namespace"] is None


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_serial": "7"},
        {"expected_serial": -1},
        {"expected_plan": "abc"},
        {"take_over": "yes"},
        {"principal": "x" * 101},
        {"principal": "a\nb"},
        {"source": ""},
        {"lock_timeout": 1.5},
        {"namespace": "other"},
    ],
    ids=str,
)
def test_a_bad_field_is_an_error_that_names_it(fields: dict[str, Any]) -> None:
    done = on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict(), **fields}, None)
    (error,) = done["errors"]
    assert error["code"] == "bad_request"
    assert next(iter(fields)) in error["message"]


def test_an_environment_without_a_table_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZAEL_STACK", raising=False)
    (error,) = on_event({"action": "state", "namespace": "tenant-alpha"}, None)["errors"]
    assert (error["code"], "ZAEL_STACK" in error["message"]) == ("no_table", True)


@pytest.mark.parametrize(
    ("request_", "namespace"),
    [
        ({"action": "destroy", "namespace": "tenant-alpha"}, "tenant-alpha"),
        ({"action": "plan", "manifest": {"namespace": "tenant-alpha", "more": 1}}, "tenant-alpha"),
        ({"action": "plan", "manifest": {"namespace": "tenant alpha"}}, None),
        ({"action": "state", "namespace": 3}, None),
        ({"action": "state", "namespace": "tenant-alpha"}, "tenant-alpha"),
    ],
    ids=str,
)
def test_a_failed_answer_names_the_namespace_of_its_request(
    request_: Any, namespace: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZAEL_STACK", raising=False)
    done = on_event(request_, None)
    assert (done["status"], done["namespace"]) == ("failed", namespace)


def test_a_table_that_is_away_is_an_error_in_an_answer_that_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    done = on_event({"action": "apply", "manifest": {"namespace": "tenant-alpha"}}, None)
    (error,) = json.loads(json.dumps(done))["errors"]
    assert error["code"] == "table_failed"
    assert NO_TABLE in error["message"]


@pytest.mark.usefixtures("over_memory")
def test_each_action_is_answered_with_plain_values(world: World) -> None:
    plain = EVERY_LEVEL.to_dict()
    planned, applied, drift = (
        on_event({"action": action, "manifest": plain}, None) for action in ("plan", "apply", "diff")
    )
    assert [each["status"] for each in (planned, applied, drift)] == ["planned", "applied", "planned"]
    assert (planned["created"], applied["created"], drift["changes"]) == (4, 4, [])
    exported, state = (
        on_event({"action": action, "namespace": "tenant-alpha"}, None) for action in ("export", "state")
    )
    assert exported["manifest"] == plain
    assert state["state"]["managed"]["entities"] == {"user-1": ["_default_", "gpt-4"]}
    for each in (planned, applied, drift, exported, state):
        assert Answer.from_dict(json.loads(json.dumps(each))).to_dict() == each


@pytest.mark.usefixtures("over_memory")
def test_a_table_or_an_id_that_a_request_names_is_ignored(world: World) -> None:
    older = {"manifest": EVERY_LEVEL.to_dict(), "table_name": "x", "namespace_id": "y"}
    for each in (on_event({"action": "apply", **older}, None), on_event(older, None), on_plan_event(older, None)):
        assert [note.partition(": ")[::2] for note in each["notes"]] == [
            ("table_name", "ignored, remove it: the function knows its table"),
            ("namespace_id", "ignored, remove it: a namespace is named, by `namespace` or in the manifest"),
        ]
        assert each["errors"] == []
    assert world.live() == EVERY_LEVEL
    failed = on_event({"action": "state", "namespace": "a b", "table_name": "x"}, None)
    assert (failed["status"], len(failed["notes"])) == ("failed", 1)


@pytest.mark.usefixtures("over_memory")
def test_a_manifest_without_an_action_is_planned_and_not_applied(world: World) -> None:
    planned = on_event({"manifest": EVERY_LEVEL.to_dict()}, None)
    assert (planned["status"], planned["created"], "notes" in planned) == ("planned", 4, False)
    assert world.items() == []


@pytest.mark.usefixtures("over_memory")
def test_a_mistyped_key_is_refused_and_nothing_is_applied(world: World) -> None:
    done = on_event({"action": "apply", "manifest": EVERY_LEVEL.to_dict(), "expected_paln": "sha256:0"}, None)
    (error,) = done["errors"]
    assert error["code"] == "bad_request"
    assert error["message"].endswith('unknown key "expected_paln", did you mean `expected_plan`?')
    assert world.items() == []


@pytest.mark.usefixtures("over_memory")
def test_what_goes_wrong_otherwise_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(handler, "table_of_environment", broken)
    done = on_event({"action": "state", "namespace": "tenant-alpha"}, None)
    (error,) = done["errors"]
    assert done["namespace"] == "tenant-alpha"
    assert error == {"code": "internal", "message": "RuntimeError: a mistake of ours; see the Lambda's log"}


@pytest.mark.usefixtures("over_memory")
def test_a_request_may_come_compressed_and_a_large_answer_goes_so_and_in_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = manifest(entities=entities(300))
    request = pack({"action": "plan", "manifest": wanted.to_dict()}, largest=10_000)
    assert list(request) == ["packed"]
    assert on_event(request, None)["created"] == 300

    monkeypatch.setattr(handler, "page", lambda plain, after: packing.page(plain, after, largest=1_000))
    pages = [on_event(request, None)]
    while "next" in pages[-1]:
        pages.append(on_event({"action": "plan", "manifest": wanted.to_dict(), "next": pages[-1]["next"]}, None))
    assert len(pages) > 1
    assert unpack(pages)["created"] == 300

    world.apply(manifest(entities=entities(2)))
    late = on_event({"action": "plan", "manifest": wanted.to_dict(), "next": pages[0]["next"]}, None)
    assert late["errors"][0]["code"] == "bad_request"
    assert on_event({"packed": "junk"}, None)["errors"][0]["code"] == "bad_request"


def test_it_needs_botocore_alone_and_imports_no_client_before_it_is_asked() -> None:
    ask = (
        "import sys; from zae_limiter_provisioner.handler import on_event\n"
        "before = {'botocore', 'boto3', 'aioboto3', 'aiohttp'} & set(sys.modules)\n"
        "done = on_event({'action': 'apply', 'manifest': {'namespace': 'tenant-alpha'}}, None)\n"
        "after = {'botocore', 'boto3', 'aioboto3', 'aiobotocore', 'aiohttp'} & set(sys.modules)\n"
        "print(before, done['status'], after)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=60
    )
    assert answer.stdout.splitlines()[-1] == "set() failed {'botocore'}"
    assert json.loads(answer.stdout.splitlines()[0])["status"] == "failed"


def bomb(text: bytes) -> dict[str, str]:
    return {"packed": base64.b64encode(zlib.compress(text, 9)).decode()}


@pytest.mark.parametrize("size", [packing.LARGEST_REQUEST + 1, 200_000_000])
def test_a_request_that_grows_beyond_bounds_is_refused_before_it_does(size: int) -> None:
    event = bomb(b'{"a":[' + b"[]," * (size // 3) + b"0]}")
    assert len(event["packed"]) < 400_000
    tracemalloc.start()
    try:
        (error,) = on_event(event, None)["errors"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (error["code"], f"larger than {packing.LARGEST_REQUEST} bytes" in error["message"]) == ("bad_request", True)
    assert peak < 4 * packing.LARGEST_REQUEST


def test_a_request_that_is_nested_too_deep_is_refused() -> None:
    (error,) = on_event(bomb(b"[" * 1_000_000 + b"]" * 1_000_000), None)["errors"]
    assert (error["code"], "cannot be unpacked" in error["message"]) == ("bad_request", True)


def test_a_request_of_more_values_than_memory_has_room_for_is_refused_unparsed() -> None:
    (error,) = on_event(bomb(b'{"a":[' + b"[]," * packing.MOST_VALUES + b"0]}"), None)["errors"]
    assert error == {"code": "bad_request", "message": f"cannot be read: {MORE_VALUES}"}


MORE_VALUES = f"it has more than {packing.MOST_VALUES} keys and values"
MISTAKEN = {"namespace": "a", "entities": {f"e{n}": 1 for n in range(5_000)}}


@pytest.mark.parametrize("action", ["plan", "apply"])
def test_of_very_many_mistakes_the_first_are_answered_and_the_others_counted(action: str) -> None:
    *told, last = on_event({"action": action, "manifest": MISTAKEN}, None)["errors"]
    assert (len(told), last["message"]) == (1_000, "and 4,000 more mistakes")


@pytest.mark.parametrize("action", ["plan", "apply"])
def test_a_failure_is_paged_like_any_other_answer(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "page", lambda plain, after: packing.page(plain, after, largest=1_000))
    pages = [on_event({"action": action, "manifest": MISTAKEN}, None)]
    while "next" in pages[-1]:
        pages.append(on_event({"action": action, "manifest": MISTAKEN, "next": pages[-1]["next"]}, None))
    answer = unpack(pages)
    assert (len(pages) > 1, answer["status"], len(answer["errors"])) == (True, "failed", 1_001)
    late = on_event({"action": action, "manifest": {"namespace": "a b"}, "next": pages[0]["next"]}, None)
    assert late["errors"][0]["message"].startswith("the answer has changed since its first page")


@pytest.mark.parametrize("namespace", ["prod", "ours"])
def test_an_apply_to_the_table_of_another_product_is_refused_and_changes_nothing(world: World, namespace: str) -> None:
    world.memory.execute(Put(FOREIGN))
    (error,) = world.ask("apply", manifest(namespace, resources={"gpt-4": limits(50)})).errors
    assert TOLD in error.message
    assert world.memory.execute(Scan(9)).items == [FOREIGN]
