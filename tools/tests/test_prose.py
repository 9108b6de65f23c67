import pytest

import prose
from check_siblings import ROOT


def test_no_count_is_above_its_ceiling() -> None:
    assert prose.departures(prose.counts(prose.texts(ROOT)), prose.read_ceilings()) == []


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("Ten is no amount.", "is no"),
        ("Nobody waits.", "nobody"),
        ("It refuses whomever it meets.", "meet"),
        ("A ripe entry", "ripe"),
        ("a bucket that was told", "tell"),
    ],
)
def test_a_habit_is_counted(text: str, habit: str) -> None:
    assert prose.habits(text)[habit] == 1


def test_plain_english_is_not_counted() -> None:
    assert not any(
        prose.habits("There is no bucket `nobody`, which is no longer stripped of a metre of enterprise.").values()
    )


def test_blocks_of_code_are_not_prose() -> None:
    assert prose.page_text("nobody\n```text\nnobody\n```\nnobody").count("nobody") == 2


def test_comments_docstrings_and_messages_are_prose() -> None:
    source = '"""One."""\nripe = 1  # two\nraise ValueError(\n    "three"\n)\n'
    text = prose.source_text(source)
    assert [line.strip(' "') for line in text.split("\n")[:4]] == ["One.", "# two", "", "three"]


def test_a_ceiling_falls_and_never_rises() -> None:
    now, ceilings = {"docs": {"nobody": 3, "ripe": 2}}, {"docs": {"nobody": 2, "ripe": 5}}
    (line,) = prose.departures(now, ceilings)
    assert line.startswith("docs: 3 times 'nobody', of at most 2")
    assert prose.fallen(now, ceilings)
    assert prose.lowered(now, ceilings).endswith('[docs]\n"nobody" = 2\n"ripe" = 2\n')


def test_house_rules_ask_for_a_lower_ceiling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import house_rules

    high = {kind: dict.fromkeys(prose.HABITS, 10_000) for kind in ("docs", "sources")}
    monkeypatch.setattr(prose, "read_ceilings", lambda: high)
    assert house_rules.main() == 0
    assert "prose.py --lower" in capsys.readouterr().out
