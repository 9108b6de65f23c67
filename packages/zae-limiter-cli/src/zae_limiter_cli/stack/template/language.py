"""The few elements of CloudFormation's language that the template uses."""

from collections.abc import Sequence
from typing import Any, Final

Value = Any  # JSON, as CloudFormation reads it
Resource = dict[str, Value]
Resources = dict[str, Resource]

NO_VALUE: Final = {"Ref": "AWS::NoValue"}


def ref(name: str) -> Value:
    """Return the value of a parameter, or the id of a resource."""
    return {"Ref": name}


def attribute(resource: str, name: str) -> Value:
    """Return an attribute of a resource."""
    return {"Fn::GetAtt": [resource, name]}


def text(template: str) -> Value:
    """Return a text with ``${Name}`` in it."""
    return {"Fn::Sub": template}


def split(parameter: str) -> Value:
    """Return the list in a parameter with commas between its items."""
    return {"Fn::Split": [",", ref(parameter)]}


def when(condition: str, then: Value, otherwise: Value = NO_VALUE) -> Value:
    """Return one value or the other; without the other, the property is absent, or the item of a list."""
    return {"Fn::If": [condition, then, otherwise]}


def equals(parameter: str, value: str) -> Value:
    """Return a condition on a parameter."""
    return {"Fn::Equals": [ref(parameter), value]}


def differs(parameter: str, value: str) -> Value:
    """Return the opposite condition on a parameter."""
    return {"Fn::Not": [equals(parameter, value)]}


def both(*conditions: Value) -> Value:
    """Return the condition that all hold; a name stands for the condition of that name."""
    return {"Fn::And": [{"Condition": each} if isinstance(each, str) else each for each in conditions]}


def filled(*parameters: str) -> Value:
    """Return the condition that one of them is not empty, without `Fn::Or`, which keeps cfn-lint busy for more than ten
    minutes.
    """
    return {"Fn::Not": [{"Fn::Equals": [text("".join(f"${{{each}}}" for each in parameters)), ""]}]}


def resource(kind: str, properties: Resource, *, condition: str | None = None, **attributes: Value) -> Resource:
    """Return a resource of type ``AWS::{kind}``; attributes such as ``DependsOn`` stand beside its properties."""
    conditional = {} if condition is None else {"Condition": condition}
    return {"Type": f"AWS::{kind}", **conditional, **attributes, "Properties": properties}


def allow(actions: Sequence[str], resources: Value, condition: Value = None) -> Resource:
    """Return a statement of a policy."""
    conditional = {} if condition is None else {"Condition": condition}
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources, **conditional}


def document(statements: Value) -> Resource:
    """Return a policy of statements."""
    return {"Version": "2012-10-17", "Statement": statements}
