"""A request to the Lambda, as a value that client and Lambda share."""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self, get_args

from attrs import field, fields, frozen
from attrs.validators import and_, deep_iterable, ge, in_, instance_of, le, matches_re, optional

from .bounds import Bounds
from .checks import describe_unknown_key
from .formats import FormatError, reading
from .manifest import LimitsManifest
from .naming import NameKind, find_name_problem
from .problems import ManifestError, Problem, show
from .shares import check_share

Action = Literal[
    "plan",
    "apply",
    "diff",
    "export",
    "state",
    "unlock",
    "watch",
    "stop",
    "history",
    "show",
    "bounds",
    "bind",
    "unbind",
]

ACTIONS: Final[tuple[str, ...]] = get_args(Action)
NEED_MANIFEST: Final = frozenset({"plan", "apply", "diff"})
LONGEST_CLAIM: Final = 100
LONGEST_WAIT_SECONDS: Final = 900


def _is_claim(_: object, attribute: Any, value: Any) -> None:
    if not (isinstance(value, str) and 1 <= len(value) <= LONGEST_CLAIM and value.isprintable()):
        raise ValueError(f"{attribute.name} must be 1 to {LONGEST_CLAIM} printable characters")


def _is_whole(_: object, attribute: Any, value: object) -> None:
    if type(value) is not int:
        raise TypeError(f"{attribute.name} must be a whole number, not {value!r}")


def _is_text(_: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be text, not {show(value)}")


def _is_flag(_: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be true or false, not {show(value)}")


def _as_share(value: Any) -> Any:
    return None if value is None else check_share(value)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # a list in JSON


_CLAIM: Final = optional(_is_claim)


@frozen
class Request:
    """A request about a namespace; raises `ValueError` or `TypeError`.

    `expected_serial` and `expected_plan` (a hash of changes) identify the plan that was shown: an apply of any other
    plan is refused. `principal` and `source` name the author and the revision; they are unverified claims.
    `lock_timeout` is the time to wait for another apply, in seconds. `next` is that of the page before. `targets` are
    patterns of addresses: all others stay as they are. `changes_per_second` bounds an apply. `serial` is that of the
    apply to show. `bounds` are those to set. `share` is the region's share of each limit, such as `60%`; None leaves it
    as it was applied last.
    """

    action: Action = field(validator=in_(ACTIONS))
    namespace: str = field()
    manifest: LimitsManifest | None = field(default=None, validator=optional(instance_of(LimitsManifest)))
    expected_serial: int | None = field(default=None, kw_only=True, validator=optional([_is_whole, ge(0)]))
    expected_plan: str | None = field(
        default=None, kw_only=True, validator=optional(and_(_is_text, matches_re(r"sha256:[0-9a-f]{64}")))
    )
    take_over: bool = field(default=False, kw_only=True, validator=_is_flag)
    principal: str | None = field(default=None, kw_only=True, validator=_CLAIM)
    source: str | None = field(default=None, kw_only=True, validator=_CLAIM)
    lock_timeout: int = field(default=0, kw_only=True, validator=[_is_whole, ge(0), le(LONGEST_WAIT_SECONDS)])
    targets: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_tuple, validator=deep_iterable(_is_claim))
    changes_per_second: int | None = field(default=None, kw_only=True, validator=optional([_is_whole, ge(1)]))
    serial: int | None = field(default=None, kw_only=True, validator=optional([_is_whole, ge(1)]))
    share: str | None = field(default=None, kw_only=True, converter=_as_share)
    bounds: Bounds | None = field(default=None, kw_only=True, validator=optional(instance_of(Bounds)))
    lock_id: str | None = field(default=None, kw_only=True, validator=optional(_is_text))
    next: str | None = field(default=None, kw_only=True, validator=optional(_is_text))

    @namespace.validator
    def _namespace_is_a_name(self, _: object, value: object) -> None:
        if problem := find_name_problem(NameKind.NAMESPACE, value):
            raise ValueError(f"namespace {show(value)} {problem}")

    def __attrs_post_init__(self) -> None:
        if self.manifest is None and self.action in NEED_MANIFEST:
            raise ValueError(f"{self.action} needs a manifest")
        if self.manifest is not None and self.manifest.namespace != self.namespace:
            raise ValueError(f"namespace {self.namespace} differs from that of the manifest, {self.manifest.namespace}")
        if not isinstance(self.targets, tuple):
            raise TypeError(f"targets must be a list of patterns, not {show(self.targets)}")
        if self.targets and self.take_over:
            raise ValueError("targets and take_over exclude each other: a namespace is taken over as a whole")
        if self.targets and self.share is not None:
            raise ValueError("targets and share exclude each other: a share is one of the whole namespace")
        if self.action == "unlock" and self.lock_id is None:
            raise ValueError("unlock needs the lock_id, which `limits status` shows")

        if self.action == "show" and self.serial is None:
            raise ValueError("show needs the serial of an apply, which `limits status` shows")
        if (self.action == "bind") != (self.bounds is not None):
            raise ValueError("bind needs bounds, and no other action has any")

    @classmethod
    def of(cls, action: Action, manifest: LimitsManifest, **options: Any) -> Self:
        """Return a request about a manifest and its namespace."""
        return cls(action, manifest.namespace, manifest, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back as an equal request; fields at their defaults are left
        out.
        """
        values = {each.name: getattr(self, each.name) for each in fields(type(self)) if each.name in _OPTIONS}
        defaults = {each.name: each.default for each in fields(type(self))}
        manifest = {} if self.manifest is None else {"manifest": self.manifest.to_dict()}
        plain = {name: value for name, value in values.items() if value != defaults[name]}
        if self.bounds is not None:
            plain["bounds"] = self.bounds.to_dict()
        return {"action": self.action, "namespace": self.namespace, **manifest, **plain}

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Return the request in plain values; the default action is a plan, the default namespace the manifest's.

        Raises `FormatError`, also for an unknown key, and `ManifestError` with every mistake of the manifest.
        """
        if not isinstance(raw, Mapping):
            raise UnknownActionError(raw)
        _refuse_unknown_keys(raw)
        action = _action_of(raw)
        manifest = _manifest_of(raw, action)
        with reading("request"):
            namespace = raw.get("namespace", manifest.namespace if manifest else None)
            if namespace is None:
                raise ValueError(f"namespace is missing: {action} needs one")
            options = {name: raw[name] for name in _OPTIONS if raw.get(name) is not None}
            if "bounds" in options:
                options["bounds"] = Bounds.from_dict(options["bounds"], "bounds")
            return cls(action, namespace, manifest, **options)


class UnknownActionError(FormatError):
    """The request names an unknown action, or neither an action nor a manifest."""

    def __init__(self, asked: object) -> None:
        text = show(asked) if isinstance(asked, str | int | float) else type(asked).__name__
        problem = (
            "the request has neither an action nor a manifest to plan"
            if asked is None
            else f"there is no action {text}"
        )
        super().__init__(f"{problem}; the actions are: {', '.join(ACTIONS)}")


def ignored_in(raw: object) -> tuple[str, ...]:
    """Return a note on each key of a request that only older clients send, and that has no meaning any more."""
    keys = raw if isinstance(raw, Mapping) else {}
    return tuple(f"{name}: ignored, remove it: {why}" for name, why in _IGNORED.items() if name in keys)


def _action_of(raw: Mapping[str, Any]) -> Action:
    asked = raw.get("action")
    if asked is None and raw.get("manifest") is not None:
        return "plan"
    if asked not in ACTIONS:
        raise UnknownActionError(asked)
    action: Action = asked
    return action


def _manifest_of(raw: Mapping[str, Any], action: Action) -> LimitsManifest | None:
    plain = raw.get("manifest")
    if plain is None and action in NEED_MANIFEST:
        raise ManifestError([Problem("manifest", None, None, "manifest", f"is missing: {action} needs one")])
    return None if plain is None else LimitsManifest.from_dict(plain, "manifest")


def _refuse_unknown_keys(raw: Mapping[str, Any]) -> None:
    for key in raw:
        if key not in _KEYS and key not in _IGNORED:
            raise FormatError(f"not a request: {describe_unknown_key(key, _KEYS)}")


_IGNORED: Final = {
    "table_name": "the function knows its table",
    "namespace_id": "a namespace is named, by `namespace` or in the manifest",
}
_KEYS: Final = tuple(each.name for each in fields(Request))
_OPTIONS: Final = tuple(each.name for each in fields(Request) if each.name not in {"action", "namespace", "manifest"})
