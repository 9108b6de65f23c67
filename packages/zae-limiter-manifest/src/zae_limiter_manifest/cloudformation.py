"""Read and write a manifest as the properties of a CloudFormation resource, and the template that contains them.

The names of limits, resources and entities keep their spelling.

CloudFormation evaluates what it finds in properties: a map with a key such as `Fn::ImportValue`, and `{{resolve:…}}` in
any text. The author of a manifest must not run such code with the rights of the stack's deployer, so metadata are
one JSON text without a brace inside its strings, every text that YAML could read as something else is in quotes, and
names and texts that CloudFormation would evaluate are refused.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

import yaml
from attrs import astuple, evolve, field, frozen
from attrs.converters import optional
from attrs.validators import instance_of

from .checks import Finding, enforce, read_flag, read_integer, read_json_map, read_percents, read_seconds
from .cross_problems import find_cross_problems
from .delegation import alias_of
from .dumping import is_plain
from .manifest import MANIFEST, LimitsManifest
from .problems import Path, show
from .shapes import Anything, Flag, Integer, JsonMap, Member, NamedMap, Number, Percents, Record, Refill, Seconds, Shape
from .shares import check_share

RESOURCE_TYPE: Final = "Custom::ZaeLimiterLimits"
LOGICAL_ID: Final = "TenantLimits"

_TAKE_OVER: Final = "TakeOver"
_SHARE: Final = "Share"
_IGNORED: Final = ("TableName", "NamespaceId")  # of older templates: the function knows the table, and the namespace
_FLAG: Final = Flag(as_text=True)
_CAPITAL: Final = re.compile("(?<!^)(?=[A-Z])")
_STACK_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_EVALUATED_NAMES: Final = ("Ref", "Condition")
_EVALUATED_PREFIXES: Final = ("Fn::", "AWS::")
_DYNAMIC_REFERENCE: Final = "{{resolve:"


@frozen
class StackProperties:
    """The properties of a stack's resource: the manifest, whether to take the namespace over from another owner, and
    the region's share of each limit; without one, it stays as it was applied last.

    `ignored` names properties of older templates that have no meaning any more. Raises `ManifestError` for a name or a
    text that CloudFormation would evaluate.
    """

    manifest: LimitsManifest = field(validator=instance_of(LimitsManifest))
    take_over: bool = field(default=False, kw_only=True, validator=instance_of(bool))
    share: str | None = field(default=None, kw_only=True, converter=optional(check_share))
    ignored: tuple[str, ...] = field(default=(), kw_only=True, eq=False)

    def __attrs_post_init__(self) -> None:
        name = f"ResourceProperties of {self.manifest.namespace}"
        enforce(Anything(), None, name, _find_evaluated(self.to_dict(), ()))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], name: str = "ResourceProperties") -> Self:
        """Parse properties; numbers and booleans may be text. Raises `ManifestError` with every mistake."""
        enforce(_PROPERTIES, raw, name)
        known = {key: value for key, value in raw.items() if key in _MANIFEST.members}
        plain = _translate(_MANIFEST, known, _snake)
        enforce(_PROPERTIES, raw, name, map(_in_properties, find_cross_problems(plain)))
        manifest = LimitsManifest.from_dict(plain, name)
        ignored = tuple(name for name in _IGNORED if name in raw)
        take_over, share = read_flag(_FLAG, raw.get(_TAKE_OVER)) or False, raw.get(_SHARE)
        enforce(_PROPERTIES, raw, name, _find_share_problem(share))
        return cls(manifest, take_over=take_over, share=share or None, ignored=ignored)

    def to_dict(self) -> dict[str, Any]:
        """Return properties that `from_dict` reads back as an equal value."""
        properties: dict[str, Any] = _translate(MANIFEST, self.manifest.to_dict(), _pascal)
        more = {_TAKE_OVER: self.take_over, _SHARE: self.share}
        return properties | {name: value for name, value in more.items() if value}


def render_template(properties: StackProperties, name: str, *, delegated: bool = False) -> str:
    """Return the template, as YAML, of a stack that has one namespace's limits for the limiter `name`; raises
    `ValueError`. If `delegated`, the stack invokes the alias that serves this namespace alone.
    """
    if not _STACK_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid stack name: a letter, then letters, digits and hyphens, 128 at most")
    namespace = properties.manifest.namespace
    provisioner = _ImportValue(f"{name}-LimitsProvisionerArn")
    token = {"Fn::Join": [":", [provisioner, alias_of(namespace)]]} if delegated else provisioner
    told: dict[str, Any] = {"ServiceToken": token, **properties.to_dict()}
    parameters = {}
    if properties.share:  # of each region its own: a stack set overrides the parameter
        parameters = {"Parameters": {_SHARE: {"Type": "String", "Default": properties.share}}}
        told[_SHARE] = {"Ref": _SHARE}
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Limits of the namespace {namespace} in the zae-limiter stack {name}",
        **parameters,
        "Resources": {LOGICAL_ID: {"Type": RESOURCE_TYPE, "Properties": told}},
    }
    text: str = yaml.dump(template, Dumper=_Dumper, sort_keys=False, width=sys.maxsize)
    return text


class _ImportValue(str):
    """The name of another stack's export."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes `!ImportValue` in its short form, texts in quotes where needed, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  PyYAML's signature
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Return a text in quotes unless every version of YAML reads it as text: `1e3` is a number to all but PyYAML."""
    quotes = "'" if value.isascii() and value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_plain(value) else quotes)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(_ImportValue, lambda dumper, value: dumper.represent_scalar("!ImportValue", str(value)))


def _in_properties(found: Finding) -> Finding:
    """Return a problem with the path of its property: the names of sections and of their levels keep their spelling."""
    path = (each if at in (1, 3) or not isinstance(each, str) else _pascal(each) for at, each in enumerate(found.path))
    return evolve(found, path=tuple(path))


def _find_share_problem(share: object) -> Iterator[Finding]:
    try:
        if share not in (None, ""):  # a parameter of CloudFormation cannot be left out
            check_share(share)
    except ValueError as error:
        yield Finding((_SHARE,), str(error))


def _find_evaluated(value: object, path: Path) -> Iterator[Finding]:
    """Yield a problem for each name and each text that CloudFormation would evaluate.

    It looks at everything that is written, not at shapes, so that no new field is left out.
    """
    if isinstance(value, str) and _DYNAMIC_REFERENCE in value:
        yield Finding(path, f"must not contain `{_DYNAMIC_REFERENCE}`: CloudFormation would replace it")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _find_evaluated(each, (*path, place))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key in _EVALUATED_NAMES or key.startswith(_EVALUATED_PREFIXES) or _DYNAMIC_REFERENCE in key:
                yield Finding((*path, key), f"{show(key)} cannot be a name here: CloudFormation would evaluate it")
            yield from _find_evaluated(each, (*path, key))


def _as_json(value: object) -> str:
    """Return metadata as JSON in ASCII, with the braces inside strings escaped.

    The other braces belong to maps, where JSON never has two opening ones side by side, or one after a `$`: neither
    `{{resolve:` nor `${` can appear.
    """
    match value:
        case Mapping():
            return f"{{{','.join(f'{_as_json(key)}:{_as_json(part)}' for key, part in value.items())}}}"
        case list():
            return f"[{','.join(map(_as_json, value))}]"
        case str():
            return json.dumps(value).replace("{", r"\u007b").replace("}", r"\u007d")
    return json.dumps(value)


def _pascal(key: str) -> str:
    return "".join(map(str.capitalize, key.split("_")))


def _snake(key: str) -> str:
    return _CAPITAL.sub("_", key).lower()


def _spelled(shape: Shape) -> Shape:
    """Return the shape in CloudFormation's spelling, which passes numbers and booleans as text."""
    match shape:
        case Integer():
            return Integer(shape.highest, as_text=True, least=shape.least)
        case Seconds():
            return Seconds(shape.highest, as_text=True)
        case Number():
            return Number(shape.highest, shape.decimals, as_text=True)
        case Flag():
            return _FLAG
        case JsonMap():
            return JsonMap(as_text=True)
        case Percents():
            return Percents(shape.most, as_text=True)
        case NamedMap():
            return NamedMap(shape.kind, _spelled(shape.entry), shape.least, shape.most, shape.advice, shape.word)
        case Record():
            return _spelled_record(shape)
        case _:
            return shape


def _spelled_record(record: Record) -> Record:
    members = {
        _pascal(key): Member(
            _spelled(each.shape),
            each.text,
            each.required,
            each.at_least and _pascal(each.at_least),
            each.default,
            each.spreads_to and _pascal(each.spreads_to),
            each.off and Refill(*map(_pascal, astuple(each.off))),
            tuple(map(_pascal, each.unless)),
        )
        for key, each in record.members.items()
    }
    short = record.short and {name: _pascal(key) for name, key in record.short.items()}
    return Record(record.title, record.text, members, record.conflicts, short, record.recurs)


def _translate(shape: Shape, value: Any, rename: Callable[[str], str]) -> Any:
    """Return a valid value with its keys renamed; names keep their spelling."""
    match shape:
        case Integer():
            return read_integer(shape, value)
        case Seconds() | Number():
            return read_seconds(shape, value)
        case Flag():
            return read_flag(shape, value)
        case Percents():
            return read_percents(shape, value)
        case JsonMap():
            return _as_json(value) if rename is _pascal else read_json_map(value)
        case NamedMap() if isinstance(value, str):  # its word
            return value
        case NamedMap():
            return {name: _translate(shape.entry, item, rename) for name, item in value.items()}
        case Record() if isinstance(value, str):  # the text of a limit
            return value
        case Record():
            return {rename(key): _translate(shape.members[key].shape, item, rename) for key, item in value.items()}
        case _:
            return value


_MANIFEST: Final = _spelled_record(MANIFEST)
# ServiceToken and ServiceTimeout are CloudFormation's own.
_PROPERTIES: Final = Record(
    "Properties",
    "",
    {
        **_MANIFEST.members,
        _TAKE_OVER: Member(_FLAG, "take the namespace over from another owner"),
        _SHARE: Member(Anything(), "the region's share of each limit, such as 60%"),
        "ServiceToken": Member(Anything(), ""),
        "ServiceTimeout": Member(Anything(), ""),
        **{name: Member(Anything(), "ignored") for name in _IGNORED},
    },
)
