import pytest

from zae_limiter_manifest import ManifestError, load

MISTAKES = """\
namespace: 1a
systems: {}
system:
  on_unavailable: allowed
  limits: {}
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
  a b: !!set {a}
  7: {limits: {a: {capacity: 0b_}}}
  <<: 7
entities:
  "user 1": {}
  user-2: {resources: {}}
  user-3: []
  user-4:
    resources:
      gpt-4: {limits: {wcu: {capacity: -1}}}
"""

FOUND = """\
1:12: namespace: "1a" must be a letter, then letters, digits, `_`, `-` or `.`; 64 characters at most
2:1: systems: unknown key "systems", did you mean `system`?
4:19: system.on_unavailable: must be `allow`, `block` or `share`, not the string "allowed", did you mean `allow`?
5:11: system.limits: must not be empty
7:3: resources._default_: "_default_" is reserved: it means all resources of an entity
9:7: resources._default_.limits.wcu: "wcu" is a reserved name
10:23: resources._default_.limits.rpm.capacity: must be an integer, not the string "10"
10:36: resources._default_.limits.rpm.burst: must be an integer, not the string "x"
10:39: resources._default_.limits.rpm.refil_amount: unknown key "refil_amount", did you mean `refill_amount`?
10:71: resources._default_.limits.rpm.refill_period: must be an integer, not the float 1.5
11:7: resources._default_.limits.tpm: `capacity` is missing
12:32: resources._default_.limits.x.burst: must be at least the capacity: 9 < 10
12:50: resources._default_.limits.x.refill_period: must be an integer, not the boolean true
14:13: resources.gpt-4.limits: must be a map, not null
15:3: resources.gpt-4: duplicate key "gpt-4", first in line 13
16:3: resources["a b"]: "a b" must be 1 to 128 printable characters without white space, at most 384 bytes when all but ASCII letters, digits and `_ - . : @ ~` is percent-encoded; a pattern has one `*`, at its end
16:8: resources["a b"]: the tag "tag:yaml.org,2002:set" is not supported
17:3: resources[7]: a key must be a string, not the integer 7: put it in quotes
17:30: resources[7].limits.a.capacity: cannot be read as int: "0b_"
18:3: resources["<<"]: a merge key takes a map, or a list of maps: alias the map to be shared
20:3: entities["user 1"]: "user 1" must be 1 to 256 printable characters without white space, at most 512 bytes when all but ASCII letters, digits and `_ - . : @ ~` is percent-encoded
21:23: entities.user-2.resources: must not be empty
22:11: entities.user-3: must be a map, not a list
25:24: entities.user-4.resources.gpt-4.limits.wcu: "wcu" is a reserved name
25:40: entities.user-4.resources.gpt-4.limits.wcu.capacity: must be at least 0, not -1
"""  # noqa: E501  # one message is one line


def test_every_mistake_is_told_at_its_place_and_in_order() -> None:
    with pytest.raises(ManifestError) as caught:
        load(MISTAKES, "bad.yaml")
    told = str(caught.value).replace("bad.yaml:", "").splitlines()
    assert sorted(told) == sorted(FOUND.splitlines())
    places = [(problem.line, problem.column) for problem in caught.value.problems]
    assert places == sorted(places)


NOT_AS_YAML = """\
namespace: a
system: {on_unavailable: *policy}
resources:
  gpt-4: {limits: {rpm: {capacity: -1}}}
  gpt-4: {limits: {rpm: {capacity: 1, burst: *b, refill_period: 0}}}
  gpt-4: {limit: 5}
---
namespace: 1
"""

NOT_AS_YAML_FOUND = """\
2:26: system.on_unavailable: the alias "policy" has no anchor above it
4:36: resources.gpt-4.limits.rpm.capacity: must be at least 0, not -1
5:3: resources.gpt-4: duplicate key "gpt-4", first in line 4
5:46: resources.gpt-4.limits.rpm.burst: the alias "b" has no anchor above it
5:65: resources.gpt-4.limits.rpm.refill_period: must be at least 1, not 0
6:3: resources.gpt-4: duplicate key "gpt-4", first in line 4
6:3: resources.gpt-4: `limits` is missing
6:11: resources.gpt-4.limit: unknown key "limit", did you mean `limits`?
7:1: (document): a second document: a manifest is one document
"""


def test_a_mistake_in_the_yaml_does_not_hide_the_others() -> None:
    with pytest.raises(ManifestError) as caught:
        load(NOT_AS_YAML, "bad.yaml")
    assert sorted(str(caught.value).replace("bad.yaml:", "").splitlines()) == sorted(NOT_AS_YAML_FOUND.splitlines())


def test_a_key_that_is_repeated_very_often_is_counted_as_often() -> None:
    with pytest.raises(ManifestError) as caught:
        load("namespace: a\n" + "system: 1\n" * 5_000)
    assert caught.value.problems[-1].message == "and 8,999 more mistakes"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("010", 'must be an integer in decimal digits, not "010": write 8 or 10'),
        ("1:30", '"1:30" is an integer in base 60 for YAML: write 90, or put it in quotes'),
        ("0x10", 'must be an integer in decimal digits, not "0x10": write 16'),
        ("0b1", 'must be an integer in decimal digits, not "0b1": write 1'),
        ("+5", 'must be an integer in decimal digits, not "+5": write 5'),
        ("-5", "must be at least 0, not -5"),
    ],
)
def test_a_number_is_written_in_decimal_digits(number: str, told: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(f"namespace: a\nsystem: {{limits: {{rpm: {{capacity: {number}}}}}}}\n")
    (problem,) = caught.value.problems
    assert problem.message == told


def test_a_number_may_have_its_digits_apart() -> None:
    system = load("namespace: a\nsystem: {limits: {rpm: {capacity: 1_000}}}").system
    assert system
    assert system.limits["rpm"].capacity == 1000


def test_a_name_that_looks_like_a_number_is_told_to_stand_in_quotes_and_keeps_its_spelling_there() -> None:
    text = "namespace: a\nentities: {NAME: {resources: {_default_: {limits: {rpm: {capacity: 1}}}}}}\n"
    for name in ("010", "0x1f", "+5"):
        with pytest.raises(ManifestError, match=r"a key must be a string, not the integer .*: put it in quotes"):
            load(text.replace("NAME", name))
    with pytest.raises(ManifestError, match=r'entities: "1:30" is an integer in base 60 .*, or put it in quotes'):
        load(text.replace("NAME", "1:30"))
    assert list(load(text.replace("NAME", '"010"')).entities) == ["010"]


def test_a_mistake_that_an_alias_repeats_is_told_once() -> None:
    text = "namespace: a\nresources:\n  r1: &r {limits: {rpm: {capacity: -1}}}\n  r2: *r\n  r3: *r\n"
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert str(caught.value) == "<manifest>:3:36: resources.r1.limits.rpm.capacity: must be at least 0, not -1"
