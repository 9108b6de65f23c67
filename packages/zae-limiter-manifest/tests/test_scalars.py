import pytest
import yaml
from yaml.events import ScalarEvent

from zae_limiter_manifest.scalars import ScalarError, is_merge_key, read_scalar


def scalar(text: str) -> ScalarEvent:
    (event,) = (event for event in yaml.parse(text, Loader=yaml.SafeLoader) if isinstance(event, ScalarEvent))
    return event


@pytest.mark.parametrize(
    "text",
    [
        *("a", '"5"', "'yes'", "! 5", "!!str 5", "1e3", "12e03", "._", "null", "~", "yes", "Off", "true"),
        *("5", "-5", "0x1f", "0b11", "010", "1_000", "1:30", "1.5", ".inf", "1.0e+3"),
        *("2024-01-01", "2024-01-01 10:00:00 +01:00"),
    ],
)
def test_a_scalar_is_read_as_safe_load_reads_it(text: str) -> None:
    value, expected = read_scalar(scalar(text)), yaml.safe_load(text)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize("text", ["=", "<<"])
def test_what_is_special_in_yaml_1_1_is_text_as_a_value(text: str) -> None:
    assert read_scalar(scalar(text)) == text


@pytest.mark.parametrize("text", ["0b_", "2024-99-99", "1" * 5000, ":".join(["1"] * 400) + ":1.0"])
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
