"""Keep an invocation by the alias of one namespace in that namespace.

Lambda itself tells by which ARN the function was invoked. The payload, which the caller writes, cannot change that.
"""

from typing import Final

from zae_limiter_manifest.delegation import namespace_of

from .refusals import Refused

_NOT_OF_LAMBDA: Final = "nothing is done: the context has no ARN of a Lambda function, so any namespace might be meant"


def alias_in(context: object) -> str | None:
    """Return the alias, or the version, by which the function was invoked; ``None`` if it was by its name alone.

    Lambda passes a context with every call: without one, a program calls the handler itself. Raises ``Refused`` for a
    context whose ARN cannot be read: to take that for a call by name would open every namespace to an alias.
    """
    if context is None:
        return None
    arn = getattr(context, "invoked_function_arn", None)
    match arn.split(":") if isinstance(arn, str) else []:
        case ["arn", _, "lambda", _, _, "function", name] if name:
            return None
        case ["arn", _, "lambda", _, _, "function", name, alias] if name and alias:
            return alias
    raise Refused("not_delegated", _NOT_OF_LAMBDA)


def check_namespaces(context: object, *namespaces: str | None) -> None:
    """Raise ``Refused`` if a request is about another namespace than the one whose alias was invoked."""
    alias = alias_in(context)
    try:
        delegated = None if alias is None else namespace_of(alias)
    except ValueError as error:
        raise Refused("not_delegated", f"{error}: `zae-limiter delegation add` creates one that does") from error
    foreign = next((each for each in namespaces if each not in (None, delegated)), None)
    if delegated is not None and foreign is not None:
        way_out = "ask through an alias or a policy of that namespace"
        raise Refused(
            "not_delegated", f"the alias {alias} serves the namespace {delegated} alone, not {foreign}: {way_out}"
        )
