"""Let moto's CloudFormation leave an item out of a list, as AWS does: moto puts a null in its place."""

from collections.abc import Callable
from typing import Any

import moto.cloudformation.parsing as moto_parsing

Clean = Callable[[Any, Any], Any]


def install() -> None:
    """Mend moto, which all of this process shares."""
    vars(moto_parsing)["clean_json"] = leaving_out(moto_parsing.clean_json)


def leaving_out(clean: Clean) -> Clean:
    """Return moto's function that resolves a part of a template, for lists without what ``AWS::NoValue`` stands for."""

    def cleaned(part: Any, resources: Any) -> Any:
        found = clean(part, resources)
        return [each for each in found if each is not None] if isinstance(part, list) else found

    return cleaned
