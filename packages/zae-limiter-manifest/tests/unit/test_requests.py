from typing import Any

import pytest

from zae_limiter_manifest import FormatError, LimitsManifest, ManifestError, Request, UnknownActionError, ignored_in

MANIFEST = LimitsManifest.from_dict({"namespace": "tenant-alpha", "system": {"on_unavailable": "allow"}})
FULL = Request.of(
    "apply",
    MANIFEST,
    expected_serial=0,
    expected_plan="sha256:" + "0" * 64,
    take_over=True,
    principal="alice",
    source="9f3c2e1",
    lock_timeout=60,
)


@pytest.mark.parametrize(
    "request_",
    [
        FULL,
        Request.of("plan", MANIFEST),
        Request("export", "tenant-alpha", next="abc:1"),
        Request("unlock", "tenant-alpha", lock_id="abc"),
    ],
    ids=lambda request: request.action,
)
def test_a_request_reads_back_as_equal(request_: Request) -> None:
    assert Request.from_dict(request_.to_dict()) == request_


def test_what_is_at_its_default_is_not_sent() -> None:
    assert Request("state", "tenant-alpha").to_dict() == {"action": "state", "namespace": "tenant-alpha"}


def test_the_namespace_is_that_of_the_manifest() -> None:
    assert Request.from_dict({"action": "plan", "manifest": MANIFEST.to_dict()}) == Request.of("plan", MANIFEST)


@pytest.mark.parametrize("action", [{}, {"action": None}], ids=str)
def test_a_manifest_without_an_action_is_planned(action: dict[str, None]) -> None:
    assert Request.from_dict({**action, "manifest": MANIFEST.to_dict()}) == Request.of("plan", MANIFEST)


def test_a_key_that_means_nothing_any_more_is_ignored_with_a_note() -> None:
    raw = {"action": "plan", "manifest": MANIFEST.to_dict(), "table_name": "x", "namespace_id": "y"}
    assert Request.from_dict(raw) == Request.of("plan", MANIFEST)
    assert ignored_in(raw) == (
        "table_name: ignored, remove it: the function knows its table",
        "namespace_id: ignored, remove it: a namespace is named, by `namespace` or in the manifest",
    )
    assert [ignored_in(each) for each in ({"action": "plan"}, None, ["table_name"])] == [(), (), ()]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("expected_serail", ", did you mean `expected_serial`?"),
        ("RequestType", "; known here: `action`, `namespace`, `manifest`, `expected_serial`"),
    ],
)
def test_a_key_that_is_not_known_is_refused(key: str, hint: str) -> None:
    with pytest.raises(FormatError) as refused:
        Request.from_dict({"action": "apply", "manifest": MANIFEST.to_dict(), key: 7})
    assert str(refused.value).startswith(f'not a request: unknown key "{key}"{hint}')


@pytest.mark.parametrize("raw", [None, [], {"action": "destroy"}, {"action": {}}], ids=str)
def test_an_unknown_action_is_told_with_those_there_are(raw: Any) -> None:
    with pytest.raises(UnknownActionError, match="the actions are: plan, apply, diff, export, state, unlock"):
        Request.from_dict(raw)


@pytest.mark.parametrize("raw", [{}, {"namespace": "tenant-alpha"}, {"action": None}], ids=str)
def test_a_request_with_neither_action_nor_manifest_is_told_what_it_lacks(raw: Any) -> None:
    with pytest.raises(UnknownActionError) as refused:
        Request.from_dict(raw)
    assert str(refused.value) == (
        "the request has neither an action nor a manifest to plan; the actions are: "
        "plan, apply, diff, export, state, unlock, watch, stop, history, show, bounds, bind, "
        "unbind"
    )


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"action": "state"}, "not a request: namespace is missing: state needs one"),
        ({"action": "state", "namespace": 3}, "namespace 3 must be"),
        ({"action": "unlock", "namespace": "a", "lock_id": 7}, "lock_id must be text, not 7"),
        ({"action": "state", "namespace": "a", "next": []}, r"next must be text, not \[\]"),
        ({"action": "state", "namespace": "a", "take_over": "yes"}, 'take_over must be true or false, not "yes"'),
        ({"action": "state", "namespace": "a b"}, "namespace"),
        ({"action": "unlock", "namespace": "a"}, "lock_id"),
        ({"action": "plan", "manifest": MANIFEST.to_dict(), "namespace": "other"}, "namespace other"),
        ({"action": "state", "namespace": "a", "lock_timeout": 901}, "lock_timeout"),
        ({"action": "state", "namespace": "a", "lock_timeout": True}, "lock_timeout"),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_the_name_of_its_field(raw: Any, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        Request.from_dict(raw)


def test_a_manifest_that_is_missing_or_bad_is_told_as_such() -> None:
    for raw, told in (
        ({"action": "plan"}, "manifest: is missing: plan needs one"),
        ({"action": "apply", "manifest": None, "namespace": "a"}, "manifest: is missing: apply needs one"),
        ({"action": "apply", "manifest": {"namespace": 3}}, "namespace: must be a string, not the integer 3"),
    ):
        with pytest.raises(ManifestError, match=told):
            Request.from_dict(raw)
    with pytest.raises(ValueError, match="needs a manifest"):
        Request("plan", "tenant-alpha")
