"""Manifests whose author wants CloudFormation to evaluate something, and what CloudFormation makes of a template.

Lives here: both. Never: an assertion.
"""

import json
import re
from decimal import Decimal
from typing import Any

import yaml
from hypothesis import reject
from hypothesis import strategies as st

from zae_limiter_manifest import EntityDecl, LimitDecl, LimitsManifest, ManifestError, OnRefusedDecl, ResourceDecl
from zae_limiter_manifest.metadata import Metadata

from .manifests import json_values, limit_maps, texts

FUNCTIONS = ["Ref", "Condition", "Fn::Sub", "Fn::ImportValue", "Fn::GetAtt", "Fn::ForEach::X", "AWS::AccountId"]
REFERENCES = ["{{resolve:ssm:/secret:1}}", "a{{resolve:secretsmanager:x}}", "{{resolve:"]
"""What CloudFormation evaluates as a key, and in any text."""

ODD = [
    *("1e3", "1E5", "0o17", "017", "08", "0x1F", "1_000", "1:30", "12e03", "012345678901", ".inf", ".5", "-1", "+1"),
    *(
        "y",
        "n",
        "yes",
        "off",
        "null",
        "~",
        "true",
        "<<",
        "=",
        "2026-01-01",
        "-",
        "?",
        "!Ref",
        "!Sub|x",
        "&a",
        "*a",
        "#",
    ),
    *("${AWS::AccountId}", "${a}", "{{", "}}", "{", "'", '"', "\\u007b", "%41", "|", ">", "@x", "`", "[a]", "{a:b}"),
    *("Fn", "Fn:", "ref", "AWS", "TenantLimits.Serial", "é", "😀", "x" * 200),
]
"""What YAML readers or functions of CloudFormation take for something else, and what it must leave alone."""

_names = st.sampled_from([*ODD, *ODD, *FUNCTIONS, *REFERENCES])
_entities = _names.filter(lambda name: not name.startswith("$"))
_resources = _names.filter(lambda name: len(name) <= 128 and not name.endswith("*"))
_limit_names = st.sampled_from(["rpm", "y", "n", "e3", "Fn", *FUNCTIONS[:2]])
_free = _names | texts | st.sampled_from(["a: b", "a #b", " x ", "- a", "two\nlines", "\u2028", "\x00", "${!x}", ""])
_metadata = st.dictionaries(
    _free.filter(lambda key: 0 < len(key) <= 128),
    st.recursive(
        json_values | _free, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_free, inner, max_size=2)
    ),
    max_size=3,
).map(Metadata.of)
_limits = limit_maps | st.dictionaries(_limit_names, st.builds(LimitDecl, st.integers(1, 10**15)), min_size=1)


@st.composite
def _levels(draw: st.DrawFn) -> dict[str, ResourceDecl]:
    found = {}
    for resource in draw(st.lists(_resources, unique=True, min_size=1, max_size=2)):
        overflow = draw(st.none() | _resources.filter(lambda other: other != resource))  # noqa: B023  drawn at once
        policy = OnRefusedDecl(wait=2, overflow=overflow)
        reason = draw(_names | st.sampled_from(["a: b", "a #b", "- a", "${!x}"]))
        switches: dict[str, Any] = draw(st.sampled_from([{}, {"disabled": True, "reason": reason}]))
        found[resource] = ResourceDecl(draw(_limits), draw(st.none() | st.just(policy)), **switches)
    return found


@st.composite
def hostile_manifests(draw: st.DrawFn, namespace: str = "tenant-alpha") -> LimitsManifest:
    """Return a manifest with functions of CloudFormation in any name and text, or none but odd ones."""
    ids = draw(st.lists(_entities, unique=True, min_size=1, max_size=3))
    entities = {
        each: EntityDecl(
            draw(st.just({}) | _levels()),
            parents=tuple(ids[:number][:1]) if draw(st.booleans()) else (),
            name=draw(st.none() | _free),
            metadata=draw(_metadata),
        )
        for number, each in enumerate(ids)
    }
    resources = draw(st.just(dict[str, ResourceDecl]()) | _levels())
    try:
        return LimitsManifest(namespace, resources=resources, entities=entities)
    except ManifestError:  # an overflow that looks like a typo
        reject()


def says_functions(manifest: LimitsManifest) -> bool:
    """Return whether CloudFormation would evaluate a name or a text of it, metadata aside."""
    plain = manifest.to_dict()
    for entity in plain.get("entities", {}).values():
        entity.pop("metadata", None)
    text = json.dumps(plain)
    return "{{resolve:" in text or any(f'"{name}": ' in text for name in FUNCTIONS)


class _Reader(yaml.SafeLoader):
    """Reads as much as any YAML reader does: the numbers of SnakeYAML and of YAML 1.2, `y` and `n`."""


_Reader.yaml_implicit_resolvers = {key: list(found) for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()}
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|[-+]?0x[0-9a-fA-F]+")
_Reader.add_implicit_resolver("!number", re.compile(rf"(?:{_NUMBER.pattern})\Z"), list("-+.0123456789"))
_Reader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Reader.yaml_constructors = {**yaml.SafeLoader.yaml_constructors}
_Reader.add_constructor("!number", lambda _, node: _number(node.value))
_Reader.add_constructor("!ImportValue", lambda _, node: {"Fn::ImportValue": node.value})


def _number(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(int(text, 0) if text[:2] in ("0x", "0o") else text.replace("_", ""))


def as_deployed(template: str, *, doubles: bool) -> Any:
    """Return the properties that the Lambda gets of a template: evaluated, all scalars as text.

    ``doubles``: whether numbers are written as Java writes floating-point ones, such as 5.0E8.
    """
    resource = yaml.load(template, Loader=_Reader)["Resources"]["TenantLimits"]
    resource["Properties"].pop("ServiceToken")
    return _evaluated(resource["Properties"], doubles)


def _evaluated(value: Any, doubles: bool) -> Any:  # noqa: FBT001
    match value:
        case dict():
            called = [key for key in value if key in FUNCTIONS or str(key).startswith(("Fn::", "AWS::"))]
            parts = {_text(key, doubles): _evaluated(part, doubles) for key, part in value.items()}
            return f"the value of {called[0]}" if called else parts
        case list():
            return [_evaluated(part, doubles) for part in value]
        case str():
            return re.sub(r"\{\{resolve:.*", "a secret", value)
    return _text(value, doubles)


def _text(value: object, doubles: bool) -> str:  # noqa: FBT001
    if isinstance(value, bool):
        return str(value).lower()
    if doubles and type(value) in (int, float) and (abs(value) >= 10**7 or 0 < abs(value) < 10**-3):  # type: ignore[arg-type]
        digits, exponent = f"{Decimal(repr(value)):E}".split("E")
        return f"{float(digits)!r}E{int(exponent)}"
    return str(value)
