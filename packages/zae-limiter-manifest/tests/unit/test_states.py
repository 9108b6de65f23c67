import json

import pytest

from zae_limiter_manifest import Answer, FormatError, LimitsManifest, LockReport, ManagedSet, Plan, StateReport

MANAGED = ManagedSet(system=True, resources={"gpt-4"}, entities={"user-1": {"_default_", "gpt-4"}})
FULL = StateReport(
    MANAGED,
    7,
    owner="cli",
    last_applied="2026-01-01T00:00:00Z",
    applied_hash="sha256:abc",
    lock=LockReport("abc", "cli (bob)", "2026-01-01T00:15:00Z"),
)


@pytest.mark.parametrize("state", [FULL, StateReport(ManagedSet(), 0)], ids=["full", "empty"])
def test_a_state_reads_back_as_equal_on_its_own_and_in_an_answer(state: StateReport) -> None:
    assert StateReport.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    manifest = LimitsManifest("tenant-alpha")
    answer = Answer("planned", Plan("tenant-alpha"), state=state, manifest=manifest)
    assert Answer.from_dict(json.loads(json.dumps(answer.to_dict()))) == answer


@pytest.mark.parametrize(
    "raw", [{}, {"lock": 3}, {**FULL.to_dict(), "managed": {"more": 1}}], ids=["empty", "lock", "more"]
)
def test_what_is_no_state_is_told(raw: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="not a state"):
        StateReport.from_dict(raw)
