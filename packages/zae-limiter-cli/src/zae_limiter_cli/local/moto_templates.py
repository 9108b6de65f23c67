"""Let moto's CloudFormation read templates as AWS does.

moto puts a null where a template leaves an item out of a list. And it refuses a template that refers to a resource of a
type that moto does not make, such as an alarm, or to an attribute of it.
"""

from collections.abc import Callable
from typing import Any

import moto.cloudformation.parsing as moto_parsing

Clean = Callable[[Any, Any], Any]


def install() -> None:
    """Mend moto, which all of this process shares."""
    vars(moto_parsing)["clean_json"] = mended(moto_parsing.clean_json)


def mended(clean: Clean) -> Clean:
    """Return moto's function that resolves a part of a template, without both faults. In place of a missing value, it
    has the name.
    """

    def cleaned(part: Any, resources: Any) -> Any:
        if isinstance(part, list):
            return [each for each in clean(part, resources) if each is not None]
        declared = getattr(resources, "_resource_json_map", {})  # a condition is resolved among parameters alone
        match part:
            case {"Fn::GetAtt": [str(name), attribute]} if _is_never_made(declared.get(name)):
                return f"{name}.{attribute}"
            case {"Ref": str(name)} if _is_never_made(declared.get(name)):
                return name
        return clean(part, resources)

    return cleaned


def _is_never_made(declared: Any) -> bool:
    return declared is not None and moto_parsing.resource_class_from_type(declared["Type"]) is None
