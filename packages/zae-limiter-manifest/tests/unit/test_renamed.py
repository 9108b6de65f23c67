"""What lives here: the keys that manifests had before they were renamed are answered with those of today."""

import pytest

from zae_limiter_manifest import ManifestError, StackProperties, load

LEVEL = "{limits: {rpm: 1/min}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"namespace: n\nplans: {{gold: {{resources: {{r: {LEVEL}}}}}}}",
            'plans: unknown key "plans": it is called `tiers` now',
        ),
        (f"plans: {{gold: {{resources: {{r: {LEVEL}}}}}}}", 'plans: unknown key "plans": it is called `tiers` now'),
        ("namespace: n\nentities: {e: {plan: gold}}", 'entities.e.plan: unknown key "plan": it is called `tier` now'),
        (
            "namespace: n\nsystem: {ahead: 1, limits: {rpm: 9/min}}",
            'system.ahead: unknown key "ahead": it is called `prefetch` now',
        ),
        (
            "namespace: n\nsystem: {limits: {rpm: {capacity: 9, ahead: 1}}}",
            'system.limits.rpm.ahead: unknown key "ahead": it is called `prefetch` now',
        ),
        ("namespace: n\nsystem: {limits: {rpm: 9/min ahead 1s}}", "`ahead` is `prefetch` now: write `prefetch 1s`"),
    ],
    ids=["plans", "plans alone", "plan", "level", "limit", "text"],
)
def test_an_old_key_is_answered_with_the_new_one(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert problem in str(caught.value)


def test_a_template_gets_the_new_key_in_its_spelling() -> None:
    with pytest.raises(ManifestError) as caught:
        StackProperties.from_dict({"Namespace": "n", "Entities": {"e": {"Plan": "gold"}}})
    assert 'unknown key "Plan": it is called `Tier` now' in str(caught.value)


def test_an_old_word_elsewhere_is_any_unknown_key() -> None:
    with pytest.raises(ManifestError, match='unknown key "plans"; known here: `extends`, `limits`'):
        load("namespace: n\nresources: {r: {limits: {rpm: 1/min}, plans: {}}}")
