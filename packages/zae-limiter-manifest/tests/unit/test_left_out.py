"""Levels that leave out what weaker ones limit."""

from collections.abc import Sequence

from zae_limiter_manifest import load
from zae_limiter_manifest.left_out import find_left_out

SEED = """
namespace: tenant-alpha
system:
  limits: {rpm: 10k/min, tpm: 100k/min}
resources:
  gpt-4: {limits: {rpm: 1k/min, tpm: 50k/min}}
  claude-3: {limits: {tpm: 200k/min}}
entities:
  user-123:
    resources:
      gpt-4: {limits: {rpm: 500/min}}
      _default_: {limits: {rpm: 200/min}}
"""


def found(text: str) -> dict[str, dict[str, Sequence[str]]]:
    return {each.path: dict(each.names) for each in find_left_out(load(text))}


def test_the_specifications_manifest_leaves_out_three() -> None:
    messages = [each.message.removeprefix("tenant-alpha: ") for each in find_left_out(load(SEED))]
    default, own = "entities.user-123.resources._default_", "entities.user-123.resources.gpt-4"
    assert messages == [
        "resources.claude-3 does not limit rpm (system does): calls on claude-3 are counted, and not limited by rpm",
        (
            f"{default} does not limit tpm (resources.claude-3 and system do): calls of user-123 on all other resources"
            " are counted, and not limited by tpm"
        ),
        (
            f"{own} does not limit tpm (resources.gpt-4 and system do): calls of user-123 on gpt-4 are counted, and not"
            " limited by tpm"
        ),
    ]


def test_a_level_that_names_every_limit_leaves_out_nothing() -> None:
    mended = SEED.replace("{rpm: 500/min}", "{rpm: 500/min, tpm: 1k/min}")
    assert found(mended).keys() == {"resources.claude-3", "entities.user-123.resources._default_"}
    assert found("{namespace: n, system: {limits: {rpm: 1/min}}, entities: {e: {}}}") == {}


def test_an_entitys_level_is_compared_with_its_tier_and_its_default() -> None:
    text = """
namespace: n
tiers:
  gold:
    resources:
      gpt-4: {limits: {tpm: 9/min}}
      _default_: {limits: {rpd: 9/day}}
entities:
  e:
    tier: gold
    resources:
      gpt-4: {limits: {rpm: 1/min}}
      _default_: {limits: {usd: 5/day}}
"""
    tier = "tiers.gold.resources"
    assert found(text) == {
        "entities.e.resources._default_": {"rpd": (f"{tier}._default_",)},
        "entities.e.resources.gpt-4": {"tpm": (f"{tier}.gpt-4",)},
    }
    own = text.replace("      gpt-4: {limits: {rpm: 1/min}}\n", "")
    names = {"rpd": (f"{tier}._default_",), "tpm": (f"{tier}.gpt-4",)}
    assert found(own)["entities.e.resources._default_"] == names


BEHIND = """
namespace: n
resources:
  gpt-4: {limits: {rpm: 9/min, tpm: 9/min}}
tiers:
  gold:
    resources:
      _default_: {limits: {rpm: 5/min}}
      gpt-4: {extends: true, limits: {rpm: 7/min}}
entities:
  e:
    tier: gold
    resources:
      gpt-4: {extends: true, limits: {usd: 5/day}}
"""


def test_a_level_that_extends_a_default_which_ends_there_leaves_out_the_resources_limits() -> None:
    [warned] = find_left_out(load(BEHIND))
    assert warned.message == (
        "n: tiers.gold.resources.gpt-4 does not limit tpm (resources.gpt-4 does): calls of entities with tier gold on"
        " gpt-4 are counted, and not limited by tpm; it extends tiers.gold.resources._default_ alone, which has no"
        " `extends: true`"
    )
    without = BEHIND.replace("      gpt-4: {extends: true, limits: {rpm: 7/min}}\n", "")
    assert found(without)["entities.e.resources.gpt-4"] == {"tpm": ("resources.gpt-4",)}
    own = BEHIND.replace(
        "      gpt-4: {extends: true, limits: {usd",
        "      _default_: {limits: {a: 1/min}}\n      gpt-4: {extends: true, limits: {usd",
    )
    names = {name: ("tiers.gold.resources.gpt-4", "resources.gpt-4")[name == "tpm" :] for name in ("rpm", "tpm")}
    assert found(own)["entities.e.resources.gpt-4"] == names


def test_what_the_warning_advises_mends_it() -> None:
    mended = BEHIND.replace("_default_: {limits", "_default_: {extends: true, limits")
    assert found(mended) == {}
    assert found(BEHIND.replace("_default_: {limits: {rpm: 5/min}}", "_default_: {limits: unlimited}")) == {}


def test_a_parent_that_limits_the_name_is_asked_anyway() -> None:
    text = """
namespace: n
system: {limits: {rpm: 1/min, tpm: 1/min}}
entities:
  org: {cascade: false}
  key: {parent: org, cascade: CASCADE, resources: {gpt-4: {limits: {rpm: 1/min}}}}
"""
    assert found(text.replace("CASCADE", "true")) == {}
    assert found(text.replace("CASCADE", "false")).keys() == {"entities.key.resources.gpt-4"}


BUDGET = """
namespace: n
system: {limits: {rpm: 1/min}}
resources: {gpt-4: {limits: {rpm: 1/min, streams: 3 concurrent}}}
entities:
  org:
    resources:
      _default_: {limits: {rpm: 9/min}}
      budget: {limits: {OTHER: 5/day}}
  key: {parent: org, cascade: true}
"""


def test_a_level_with_other_names_leaves_out_nothing() -> None:
    assert found(BUDGET.replace("OTHER", "usd")) == {}
    partly = BUDGET.replace("OTHER: 5/day", "usd: 5/day, rpm: 1/min").replace("rpm: 9/min", "rpm: 9/min, tpm: 9/min")
    assert found(partly) == {"entities.org.resources.budget": {"tpm": ("entities.org.resources._default_",)}}


def test_a_parent_leaves_out_the_defaults_of_callers() -> None:
    alone = BUDGET.replace("OTHER", "usd").replace("  key: {parent: org, cascade: true}\n", "")
    assert found(alone) == {"entities.org.resources._default_": {"streams": ("resources.gpt-4",)}}


def test_a_resource_leaves_out_limits_of_its_patterns() -> None:
    text = """
namespace: n
resources:
  "*": {limits: {tpm: 9/min}}
  "a/*": {limits: {rpm: 1/min}}
  a/b: {limits: {rpm: 5/min}}
  b: {limits: {tpm: 1/min}}
"""
    assert found(text) == {
        'resources["a/b"]': {"tpm": ('resources["*"]',)},
    }
