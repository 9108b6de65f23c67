"""What is remembered of the names of items that any program may write."""

from zae_limiter.schema.forms import LONGEST, MOST_FORMS, remember_forms


def test_equal_names_are_parsed_once_unless_they_are_longer_than_any_bucket() -> None:
    asked = list[tuple[str, ...]]()

    def ask(names: tuple[str, ...]) -> int:
        asked.append(names)
        return len(asked)

    parse = remember_forms(ask)
    assert parse(("a", "b")) == parse(("a", "b"))
    long = ("n" * (LONGEST + 1),)
    assert parse(long) != parse(long)
    for number in range(MOST_FORMS):
        parse((str(number),))
    before = len(asked)
    parse(("a", "b"))
    assert len(asked) == before + 1  # it went, and made room
