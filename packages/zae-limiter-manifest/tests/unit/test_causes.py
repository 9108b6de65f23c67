"""A mistake names its cause, not what a parser stumbled over."""

import pytest

from zae_limiter_manifest import ManifestError, load

C_OF_DATES = "c: 2026-12-20..2026-12-28 6/min"
BERLIN = '"europe/berlin", did you mean `Europe/Berlin`?'
FIVE = "a cron expression has five fields, minute, hour, day, month and weekday"
SIX = f"{FIVE}, and `0 0 6 * * MON` has 6: leave out the seconds"
OPEN = "the { of line 3, column 11 is not closed by }, or a comma is missing in it"
LEVEL = "namespace: n\nsystem:\n  limits: {}\n"


def told(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load(text, "f")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (
            "{rpm: 10/min alert 80,95, tpm: 5/min}",
            'f:3:17: system.limits.rpm: a comma ends a text in braces: write "10/min alert 80,95" in quotes',
        ),
        (
            "{rpm: 10,000/min}",
            'f:3:17: system.limits.rpm: a comma ends a text in braces: write "10,000/min" in quotes',
        ),
        (
            "{rpm: {capacity: 10,000}}",
            'f:3:28: system.limits.rpm.capacity: a comma ends a text in braces: write "10,000" in quotes',
        ),
        (
            "{rpm: {capacity: 1, window: day, timezone: europe/berlin}}",
            f"f:3:54: system.limits.rpm.timezone: must be a time zone, not {BERLIN}",
        ),
        (
            "{rpm: {capacity: 1, schedule: ['n: 00:00-06:00 europe/berlin 5/min']}}",
            f"f:3:42: system.limits.rpm.schedule[0]: its zone must be a time zone, not {BERLIN}",
        ),
        (
            "{rpm: {capacity: 3, window: '0 0 6 * * MON'}}",
            f"f:3:39: system.limits.rpm.window: is not a window: {SIX}",
        ),
        (
            "{rpm: 5/min\nresources: {}\n",
            f"f:4:10: system.limits: not valid YAML: {OPEN}",
        ),
        ("'{}\n", "f:5:1: system: not valid YAML: the ' of line 3, column 11 is not closed by '"),
    ],
)
def test_a_limit_that_the_parser_cuts_or_misreads(limits: str, line: str) -> None:
    assert told(LEVEL.replace("{}", limits)) == [line]


def test_a_comma_without_a_value_behind_it_is_metadatas_own() -> None:
    entity = load("namespace: n\nentities: {e: {metadata: {a: x,b}}}\n").entities["e"]
    assert str(entity.metadata.text) == '{"a":"x","b":null}'


def test_a_tab_is_named() -> None:
    assert told("namespace: n\nsystem:\n\tlimits: {rpm: 5/min}\n") == [
        "f:3:1: (document): not valid YAML: a tab: indent with spaces"
    ]


@pytest.mark.parametrize("part", ["entities", "tiers"])
def test_limits_right_below_an_entity_or_a_tier_say_where_they_belong(part: str) -> None:
    line = told(f"namespace: n\n{part}:\n  e:\n    limits: {{rpm: 5/min}}\n")[-1]
    assert line == (
        f'f:4:5: {part}.e.limits: unknown key "limits": limits are of a resource, of all of them '
        "`resources: {_default_: {limits: …}}`"
    )
    (line,) = told("namespace: n\nlimits: {rpm: 5/min}\n")
    assert line.endswith('unknown key "limits": limits are of `system`, or of a resource')


@pytest.mark.parametrize(
    ("entries", "first"),
    [
        (["a: mon-fri 5/min", "b: sat-sun 7/min", "c: 00:00-05:00 6/min"], '"a" or "b"'),
        (["a: 00:00-12:00 5/min", "b: 12:00-24:00 7/min", "c: 05:00-15:00 6/min"], '"a" or "b"'),
        (["a: fri 22:00-06:00 5/min", "c: sat 00:00-05:00 6/min"], '"a"'),
        (["a: mon-sun 22:00-06:00 5/min", "b: 06:00-22:00 7/min", "c: tue 20:00-07:00 6/min"], '"a" or "b"'),
        (["a: sat-sun 5/min", "c: 2026-11-28..2026-11-29 6/min"], '"a"'),
        (["a: 2026-12-01..2026-12-24 5/min", "b: 2026-12-25..2026-12-31 5/min", C_OF_DATES], '"a" or "b"'),
    ],
)
def test_an_entry_that_earlier_ones_cover_together_never_holds(entries: list[str], first: str) -> None:
    text = f"namespace: n\nsystem:\n  limits:\n    rpm: {{capacity: 5, schedule: {entries}}}\n"
    (line,) = told(text)
    assert line.endswith(f'has "c", which never holds: {first} comes first whenever it would')
    for gone in range(len(entries) - 1):
        left = [each for place, each in enumerate(entries) if place != gone]
        load(text.replace(str(entries), str(left)))


@pytest.mark.parametrize(
    "entries",
    [
        ["a: fri 22:00-06:00 5/min", "c: sat 00:00-06:01 6/min"],
        ["a: 2026-12-24..2026-12-26 5/min", "c: 2026-12-24..2027-12-26 22:00-01:00 6/min"],
        ["a: 2026-12-24..2026-12-26 5/min", "c: 2026-12-26 22:00-01:00 6/min"],
        ["a: mon-sat 5/min", "c: 22:00-06:00 6/min"],
        ["a: mon-fri Europe/Berlin 5/min", "b: sat-sun 7/min", "c: 00:00-05:00 6/min"],
    ],
)
def test_an_entry_that_holds_for_a_minute_is_left_alone(entries: list[str]) -> None:
    load(f"namespace: n\nsystem:\n  limits:\n    rpm: {{capacity: 5, schedule: {entries}}}\n")


@pytest.mark.parametrize("place", ["system", "resources.r", "tiers.p.resources.r", "entities.e.resources.r"])
def test_an_overflow_like_a_resource_of_the_manifest_is_a_typo(place: str) -> None:
    at = "namespace: n\nresources: {credits: {limits: {rpm: 1/min}}}\n"
    level = "{limits: {rpm: 1/min}, on_refused: {overflow: credis}}"
    for key in reversed(place.split(".")):
        level = f"{{{key}: {level}}}"
    section = level[1:-1]
    if place == "resources.r":
        text = at.replace("{credits:", "{r: {limits: {rpm: 1/min}, on_refused: {overflow: credis}}, credits:")
    else:
        text = f"{at}{section}\n"
    (line,) = told(text)
    assert line.endswith(
        f'{place}.on_refused.overflow: "credis" is not a resource of this manifest, did you mean `credits`?'
    )
    load(text.replace("credis", "prepaid"))  # its limits may be set by hand


@pytest.mark.parametrize("name", ["*", "anthropic/*", "gpt-*"])
def test_patterns_are_for_resources_alone(name: str) -> None:
    load(f"namespace: n\nresources: {{'{name}': {{limits: {{rpm: 1/min}}}}}}\n")
    (line,) = told(f"namespace: n\nentities: {{e: {{resources: {{'{name}': {{limits: {{rpm: 1/min}}}}}}}}}}\n")
    assert line.endswith("ends with `*`: patterns are for `resources` at the top of the file alone, name each one here")


@pytest.mark.parametrize("name", ["a*b*", "**", "_default_"])
def test_other_patterns_are_refused(name: str) -> None:
    (line,) = told(f"namespace: n\nresources: {{'{name}': {{limits: {{rpm: 1/min}}}}}}\n")
    assert "a pattern has one `*`, at its end" in line or "is reserved" in line
