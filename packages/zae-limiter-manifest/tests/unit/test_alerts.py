"""The thresholds of a limit in a manifest, in CloudFormation's spelling, in plans and in fingerprints."""

import pytest

from zae_limiter_manifest import LimitsManifest, ManifestError, StackProperties, dump, load
from zae_limiter_manifest.addresses import Address
from zae_limiter_manifest.canonical import canonical
from zae_limiter_manifest.changes import Change

HEAD = "namespace: tenant-alpha\nsystem:\n  limits:\n    usd: "


def limits_of(text: str) -> LimitsManifest:
    return load(f"{HEAD}{text}\n".encode())


@pytest.mark.parametrize(
    ("text", "alert"),
    [
        ("{capacity: 250, window: month, alert: [80, 95]}", (80, 95)),
        ("{capacity: 250, alert: [100]}", (100,)),
        ("100/min alert 80,95", (80, 95)),
        ("{capacity: 250, kind: total, alert: [1, 2, 3, 4, 5]}", (1, 2, 3, 4, 5)),
        ("{capacity: 250, kind: first_use, refill_period: 60, alert: [80]}", (80,)),
    ],
)
def test_thresholds_come_back_from_every_form(text: str, alert: tuple[int, ...]) -> None:
    manifest = limits_of(text)
    assert manifest.system is not None
    assert manifest.system.limits["usd"].alert == alert
    assert load(dump(manifest).encode()) == manifest
    properties = StackProperties(manifest).to_dict()
    assert StackProperties.from_dict(properties).manifest == manifest


def test_cloudformation_passes_numbers_as_text() -> None:
    given = {"Namespace": "t", "System": {"Limits": {"usd": {"Capacity": "250", "Alert": ["80", "95"]}}}}
    manifest = StackProperties.from_dict(given).manifest
    assert manifest.system is not None
    assert manifest.system.limits["usd"].alert == (80, 95)


@pytest.mark.parametrize(
    "text",
    [
        "80",
        '"80"',
        "[]",
        "[0]",
        "[101]",
        "[80, 80]",
        "[95, 80]",
        "[1, 2, 3, 4, 5, 6]",
        "[80.5]",
        '["80"]',
        "[true]",
        "{a: 1}",
    ],
)
def test_anything_else_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(ManifestError, match=r"alert.*1 to 5 whole numbers"):
        limits_of(f"{{capacity: 250, alert: {text}}}")


def test_slots_have_no_thresholds() -> None:
    with pytest.raises(ManifestError, match="slots have no window"):
        limits_of("{capacity: 5, kind: concurrent, alert: [80]}")


def test_a_change_says_both_sides_and_a_fingerprint_differs_only_with_thresholds() -> None:
    plain, alerting = limits_of("100/min").system, limits_of("100/min alert 80,95").system
    assert plain is not None
    assert alerting is not None
    assert canonical(plain) == "usd 100 100 100 60"
    assert canonical(alerting) == "usd 100 100 100 60 alert 80,95"
    change = Change(Address(), plain, alerting)
    assert [(each.field, each.before, each.after) for each in change.fields()] == [("alert", "none", "80,95")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("80", "the integer 80"),
        ("[]", "an empty list"),
        ("[0, 101]", "a list of the integer 0, the integer 101"),
        ('["80"]', 'a list of the string "80"'),
        ("[1, 2, 3, 4, 5, 6, 7]", "the integer 5, the integer 6 and more"),
    ],
)
def test_the_message_shows_what_was_given(text: str, told: str) -> None:
    with pytest.raises(ManifestError) as error:
        limits_of(f"{{capacity: 250, window: month, alert: {text}}}")
    assert str(error.value).endswith(told)
