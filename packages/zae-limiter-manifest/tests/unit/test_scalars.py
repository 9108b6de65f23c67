import pytest
import yaml
from yaml.constructor import SafeConstructor
from yaml.events import ScalarEvent

from zae_limiter_manifest.scalars import OddInteger, ScalarError, is_merge_key, read_scalar


def scalar(text: str) -> ScalarEvent:
    (event,) = (event for event in yaml.parse(text, Loader=yaml.SafeLoader) if isinstance(event, ScalarEvent))
    return event


@pytest.mark.parametrize(
    "text",
    [
        *("a", '"5"', "'yes'", "! 5", "!!str 5", "1e3", "12e03", "._", "null", "~", "yes", "Off", "true"),
        *("0", "-0", "5", "-5", "1_000", "-1_000_000", "1.5", ".inf", "1.0e+3"),
        *("2024-01-01", "2024-01-01 10:00:00 +01:00"),
    ],
)
def test_a_scalar_is_read_as_safe_load_reads_it(text: str) -> None:
    value, expected = read_scalar(scalar(text)), yaml.safe_load(text)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        *(
            ("010", "write 8 or 10"),
            ("-0_10", "write -8 or -10"),
            ("00", "write 0"),
            ("07", "write 7"),
            ("0" * 5000 + "10_", "write 8 or 10"),
        ),
        *(("0x10", "write 16"), ("-0b1", "write -1"), ("+5", "write 5")),
        *(("1__0", "write 10"), ("10_", "write 10"), ("0x" + "f" * 5000, "write its decimal digits")),
    ],
)
def test_an_integer_that_is_not_in_decimal_digits_keeps_its_value_and_says_how_to_write_it(
    text: str, advice: str
) -> None:
    value = read_scalar(scalar(text))
    assert isinstance(value, OddInteger)
    assert (value, value.text, value.advice) == (yaml.safe_load(text), text, advice)


@pytest.mark.parametrize(
    ("text", "advice"),
    [("1:30", "write 90"), ("1:30:00", "write 5400"), ("-1_0_:00", "write -600"), ("+2:05", "write 125")],
)
def test_an_integer_in_base_60_is_refused_with_its_value_in_seconds(text: str, advice: str) -> None:
    with pytest.raises(ScalarError) as caught:
        read_scalar(scalar(text))
    assert str(caught.value) == f'"{text}" is an integer in base 60 for YAML: {advice}, or put it in quotes'
    assert advice == f"write {yaml.safe_load(text)}"


@pytest.mark.parametrize("text", ["1:30.5", "-1:30:00.0", ":".join(["1"] * 400) + ":1.0"])
def test_a_fraction_in_base_60_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="is a number in base 60 for YAML: write it in decimal digits"):
        read_scalar(scalar(text))


def test_a_long_integer_in_base_60_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafeConstructor, "construct_object", None)
    with pytest.raises(ScalarError, match="write it in decimal digits, or put it in quotes"):
        read_scalar(scalar(":".join(["1"] * 100_000)))


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\ud83d\\ude00"'])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match=r"the lone surrogate U\+D8[0-9A-F]{2} is not a character"):
        read_scalar(scalar(text))


@pytest.mark.parametrize("text", ["=", "<<"])
def test_what_is_special_in_yaml_1_1_is_text_as_a_value(text: str) -> None:
    assert read_scalar(scalar(text)) == text


@pytest.mark.parametrize("text", ["0b_", "2024-99-99", "1" * 5000])
def test_what_only_looks_like_a_number_or_a_date_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="cannot be read as"):
        read_scalar(scalar(text))


@pytest.mark.parametrize("text", ["!foo 1", "!!int '5'", "!!python/name:os.system ''", "!!binary aGk="])
def test_a_tag_other_than_str_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="is not supported"):
        read_scalar(scalar(text))


def test_only_a_plain_double_arrow_merges() -> None:
    assert is_merge_key(scalar("<<"))
    assert not is_merge_key(scalar("'<<'"))
    assert not is_merge_key(scalar("!!str <<"))
