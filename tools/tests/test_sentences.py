from pathlib import Path

import pytest

import sentences
from sentences import departures, reflow


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One\nline. Another one!\nA third?", ["One line.", "Another one!", "A third?"]),
        ("It is `a. B` there. `x` is next.", ["It is `a. B` there.", "`x` is next."]),
        ("See [A. B](c.md). **Bold.** Plain.", ["See [A. B](c.md).", "**Bold.**", "Plain."]),
        ("Engines, e.g. Redis, i.e. one. (Two.) Three.", ["Engines, e.g. Redis, i.e. one.", "(Two.)", "Three."]),
        ("- An item. Its rest\n  goes on.", ["- An item.", "  Its rest goes on."]),
        ("1. One. Two.\n2. Three.", ["1. One.", "   Two.", "2. Three."]),
        ("!!! note\n    One. Two.", ["!!! note", "    One.", "    Two."]),
        ("It takes. 1. is not a list.", ["It takes. 1. is not a list."]),
    ],
)
def test_each_sentence_has_a_line(text: str, lines: list[str]) -> None:
    assert reflow(text) == "\n".join(lines)
    assert reflow("\n".join(lines)) == "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "# One. Two.",
        "| One. Two. | Three. Four. |\n| --- | --- |",
        "```text\nOne. Two.\n```",
        "- item\n\n  ```text\n  One. Two.\n  ```",
        "<div>\nOne. Two.\n</div>",
        "<!-- prices -->\nOne. Two.\n<!-- end -->",
        "    code. Here.",
        "[a]: https://a.example One. Two.",
        "A line. Broken  \nhere.",
    ],
)
def test_what_is_not_a_paragraph_stays(text: str) -> None:
    assert reflow(text) == text


def test_a_check_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nOne. Two.\n", encoding="utf-8")
    assert departures(page.read_text(encoding="utf-8")) == [3]
    assert sentences.main(["--check", str(page)]) == 1
    assert f"{page}:3: " in capsys.readouterr().out
    assert sentences.main([str(page)]) == 0
    assert sentences.main(["--check", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == "# Page\n\nOne.\nTwo.\n"
