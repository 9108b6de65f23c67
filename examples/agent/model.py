"""A model that needs no network: it follows a script, and obeys what a refused tool answers, as a real one does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """The model wants a tool to be called."""

    tool: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """The model is done."""

    text: str


class Model:
    """Search for each topic, then read the pages that were found. After a refusal, do what its text allows."""

    def __init__(self, topics: list[str]) -> None:
        self.topics, self.pages, self.facts = [*topics], list[str](), list[str]()
        self.may_search = True

    def next(self) -> Use | Answer:
        """Return the next step."""
        if self.topics and self.may_search:
            return Use("search", {"topic": self.topics.pop(0)})
        if self.pages:
            return Use("fetch", {"page": self.pages.pop(0)})
        return Answer(" ".join(self.facts) or "I found nothing.")

    def read(self, use: Use, text: str, *, is_error: bool) -> None:
        """Read the result of a tool."""
        if is_error:
            self.may_search = False
            if "You may call now: library/fetch." not in text:
                self.pages.clear()
        elif use.tool == "search":
            self.pages.append(text)
        else:
            self.facts.append(text)
