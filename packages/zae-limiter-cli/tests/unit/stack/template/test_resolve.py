from typing import Any

import pytest

from zae_limiter_cli.stack.template.language import NO_VALUE
from zae_limiter_cli.stack.template.resolve import resolve

TEMPLATE: dict[str, Any] = {
    "Parameters": {"Size": {"Type": "Number"}, "Loud": {"Type": "String"}},
    "Conditions": {
        "IsLoud": {"Fn::Equals": [{"Ref": "Loud"}, "true"]},
        "IsQuiet": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Loud"}, "true"]}]},
        "IsBig": {"Fn::And": [{"Condition": "IsLoud"}, {"Fn::Equals": [{"Ref": "Size"}, "9"]}]},
    },
    "Outputs": {"Alarm": {"Condition": "IsLoud", "Value": "x"}},
}


def resolved(properties: Any, *, size: int = 9, loud: bool = True) -> Any:
    template = {**TEMPLATE, "Resources": {"It": {"Type": "T", "Properties": properties}}}
    values = {"Size": size, "Loud": loud, "AWS::StackName": "my-app"}
    return resolve(template, values)["Resources"]["It"]["Properties"]


def test_parameters_become_their_values_and_keep_their_type() -> None:
    assert resolved({"A": {"Ref": "Size"}, "B": [{"Ref": "Loud"}]}) == {"A": 9, "B": [True]}


def test_what_refers_to_resources_stays() -> None:
    stays = {"A": {"Ref": "Table"}, "B": {"Fn::GetAtt": ["Table", "Arn"]}, "C": {"Fn::Sub": "${Table.Arn}/index/*"}}
    assert resolved(stays) == stays


def test_a_text_is_filled_as_far_as_its_names_are_known() -> None:
    properties = {"A": {"Fn::Sub": "${AWS::StackName}-x"}, "B": {"Fn::Sub": "${Size} ${AWS::Region} ${!Literal}"}}
    assert resolved(properties) == {"A": "my-app-x", "B": {"Fn::Sub": "9 ${AWS::Region} ${!Literal}"}}


def test_a_choice_becomes_the_one_or_the_other() -> None:
    choice = {"A": {"Fn::If": ["IsLoud", [{"Ref": "Size"}], "quiet"]}}
    assert resolved(choice) == {"A": [9]}
    assert resolved(choice, loud=False) == {"A": "quiet"}


def test_no_value_takes_its_property_away() -> None:
    choice = {"A": {"Fn::If": ["IsQuiet", "x", {"Ref": "AWS::NoValue"}]}, "B": 1}
    assert resolved(choice) == {"B": 1}


@pytest.mark.parametrize(("size", "loud", "big"), [(9, True, "yes"), (8, True, "no"), (9, False, "no")])
def test_conditions_compare_as_text_and_build_on_each_other(size: int, loud: object, big: str) -> None:
    assert resolved({"A": {"Fn::If": ["IsBig", "yes", "no"]}}, size=size, loud=bool(loud)) == {"A": big}


def test_resources_and_outputs_whose_condition_fails_are_gone() -> None:
    template = {**TEMPLATE, "Resources": {"It": {"Type": "T", "Condition": "IsQuiet", "Properties": {}}}}
    assert resolve(template, {"Size": 1, "Loud": True})["Resources"] == {}
    assert resolve(template, {"Size": 1, "Loud": False})["Resources"] == {"It": {"Type": "T", "Properties": {}}}
    assert resolve(template, {"Size": 1, "Loud": False})["Outputs"] == {}


def test_values_that_only_decide_leave_the_parameters_that_something_uses() -> None:
    choice = {"A": {"Fn::If": ["IsLoud", {"Ref": "Size"}, "quiet"]}, "B": {"Fn::If": ["IsBig", "x", NO_VALUE]}}
    template = {**TEMPLATE, "Resources": {"It": {"Type": "T", "Properties": choice}}}
    found = resolve(template, {}, {"Size": 8, "Loud": True})
    assert found["Resources"]["It"]["Properties"] == {"A": {"Ref": "Size"}}
    assert found["Parameters"] == {"Size": {"Type": "Number"}}
    assert "Conditions" not in found


def test_a_condition_on_a_parameter_without_a_value_stays_with_it() -> None:
    choice = {"A": {"Fn::If": ["IsLoud", [{"Ref": "Size"}], NO_VALUE]}, "B": [{"Fn::If": ["IsQuiet", NO_VALUE, "x"]}]}
    template = {**TEMPLATE, "Outputs": {}, "Resources": {"It": {"Type": "T", "Properties": choice}}}
    found = resolve(template, {}, {"Size": 9})
    assert found["Resources"]["It"]["Properties"] == choice
    assert set(found["Conditions"]) == {"IsLoud", "IsQuiet"}
    assert set(found["Parameters"]) == {"Size", "Loud"}
