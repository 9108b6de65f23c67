"""A matcher of regular expressions that counts its steps, so that a test sees which of them take quadratic time.

Python's own matcher backtracks: on some texts it tries every way to divide them, which takes the square of their length
or more. Its time depends on the machine; the steps of a matcher that backtracks alike do not. The texts come from the
expression: for each repetition what leads there, what is repeated, many times, and a tail that does not fit.
After K. Thompson's machine, with a stack instead of sets of states: https://swtch.com/~rsc/regexp/regexp2.html.

Never: groups that are referred to; nothing here needs them, and what this does not know it refuses.
"""

import re
import re._constants as kind  # type: ignore[import-not-found]  # no stubs
import re._parser as parser  # type: ignore[import-not-found]  # likewise
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

Place = Literal["whole", "start", "anywhere"]  # where a text has to fit: fullmatch, match, or search and its like
Fits = Callable[[str], bool]
Instruction = tuple[Any, ...]

LENGTHS: Final = (24, 48, 96)
MOST_STEPS: Final = 50_000
TAILS: Final = ("", "\0", "\n")

_CATEGORIES: Final[dict[Any, Fits]] = {
    kind.CATEGORY_DIGIT: str.isdecimal,
    kind.CATEGORY_SPACE: str.isspace,
    kind.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    kind.CATEGORY_NOT_DIGIT: lambda each: not each.isdecimal(),
    kind.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    kind.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}
_MORE_LETTERS: Final = "a0 _-./:#=,\n\0"
_NAMES: Final = {"whole": "fullmatch", "start": "match", "anywhere": "search"}


def growth(expression: re.Pattern[str], place: Place) -> str | None:
    """Return the text on which an expression takes more than linear time, shortened; ``None`` where none was found."""
    machine = Machine(expression, place)
    for text_of in _texts(expression):
        steps = [machine.steps(text_of(length)) for length in LENGTHS]
        first, second, third = steps
        if third > MOST_STEPS or third - second > 3 * (second - first) + 200:  # twice is linear, four times quadratic
            return f"{text_of(3)!r}, with 24, 48, 96 for 3: {steps} steps"
    return None


class Machine:
    """A matcher of one expression."""

    def __init__(self, expression: re.Pattern[str], place: Place) -> None:
        if expression.flags & re.IGNORECASE:
            raise NotImplementedError("re.IGNORECASE")
        self._expression = expression
        self._place = place
        end = [("at", kind.AT_END_STRING)] if place == "whole" else []
        self._code = _Program(parser.parse(expression.pattern, expression.flags), expression.flags).code[:-1]
        self._code += [*end, ("end",)]

    def steps(self, text: str) -> int:
        """Return how many steps a match takes, at most little more than ``MOST_STEPS``; it agrees with Python's own."""
        count, found = 0, False
        for start in range(len(text) + 1 if self._place == "anywhere" else 1):
            taken, found = self._run(self._code, text, start, MOST_STEPS - count)
            count += taken
            if found or count > MOST_STEPS:
                break
        if count <= MOST_STEPS and found != bool(getattr(self._expression, _NAMES[self._place])(text)):
            raise AssertionError(f"{self._expression.pattern!r} on {text!r}: this matcher is wrong")
        return count

    def _run(self, code: list[Instruction], text: str, start: int, most: int) -> tuple[int, bool]:
        count, todo = 0, [(0, start)]
        while todo and count <= most:
            at, position = todo.pop()
            count += 1
            operation, *words = code[at]
            if operation == "end":
                return count, True
            if operation == "letter":
                if position < len(text) and words[0](text[position]):
                    todo.append((at + 1, position + 1))
            elif operation == "at":
                if self._is_at(words[0], text, position):
                    todo.append((at + 1, position))
            elif operation == "assert":
                inside, wanted = words
                taken, found = self._run(inside, text, position, most - count)
                count += taken
                if found == wanted:
                    todo.append((at + 1, position))
            else:  # the first way is tried first
                todo.extend((way, position) for way in reversed(words))
        return count, False

    def _is_at(self, where: Any, text: str, position: int) -> bool:
        before, after = text[:position][-1:], text[position : position + 1]
        lines = bool(self._expression.flags & re.MULTILINE)
        if where is kind.AT_BOUNDARY:
            return any(map(_CATEGORIES[kind.CATEGORY_WORD], before)) != any(map(_CATEGORIES[kind.CATEGORY_WORD], after))
        if where in (kind.AT_BEGINNING, kind.AT_BEGINNING_STRING):
            return not before or (lines and where is kind.AT_BEGINNING and before == "\n")
        if where in (kind.AT_END, kind.AT_END_STRING):
            return not after or (where is kind.AT_END and after == "\n" and (lines or position == len(text) - 1))
        raise NotImplementedError(where)


class _Program:
    """An expression as instructions: a letter, a place, an assertion, ways to go on, the end."""

    def __init__(self, nodes: Any, flags: int) -> None:
        self.code: list[Instruction] = []
        self._flags = flags
        self._add(nodes)
        self.code.append(("end",))

    def _add(self, nodes: Any) -> None:
        for operation, value in nodes:
            fits = letter(operation, value, self._flags)
            if fits is not None:
                self.code.append(("letter", fits))
            elif operation is kind.SUBPATTERN:
                self._add(value[-1])
            elif operation is kind.BRANCH:
                self._add_branches(value[1])
            elif operation in (kind.MAX_REPEAT, kind.MIN_REPEAT):
                self._add_repetition(*value, lazy=operation is kind.MIN_REPEAT)
            elif operation is kind.AT:
                self.code.append(("at", value))
            elif operation in (kind.ASSERT, kind.ASSERT_NOT):
                self.code.append(("assert", self._inside(*value), operation is kind.ASSERT))
            else:
                raise NotImplementedError(operation)

    def _inside(self, direction: int, nodes: Any) -> list[Instruction]:
        if direction < 0 and [operation for operation, _ in nodes] != [kind.AT]:
            raise NotImplementedError("a look behind")
        return _Program(nodes, self._flags).code

    def _add_branches(self, branches: Any) -> None:
        ends = []
        for branch in branches:
            fork = self._reserve()
            self._add(branch)
            ends.append(self._reserve())
            self.code[fork] = ("go", fork + 1, len(self.code))
        self._reserve()  # a way to nowhere: no branch is left
        for end in ends:
            self.code[end] = ("go", len(self.code))

    def _add_repetition(self, least: int, most: Any, nodes: Any, *, lazy: bool) -> None:
        for _ in range(least):
            self._add(nodes)
        if most is kind.MAXREPEAT:
            if nodes.getwidth()[0] == 0:
                raise NotImplementedError("a repetition of what may be empty")
            fork = self._reserve()
            self._add(nodes)
            self.code.append(("go", fork))
            self._fork(fork, lazy=lazy)
            return
        forks = []
        for _ in range(most - least):
            forks.append(self._reserve())
            self._add(nodes)
        for fork in forks:
            self._fork(fork, lazy=lazy)

    def _reserve(self) -> int:
        self.code.append(("go",))
        return len(self.code) - 1

    def _fork(self, at: int, *, lazy: bool) -> None:
        into, past = at + 1, len(self.code)
        self.code[at] = ("go", past, into) if lazy else ("go", into, past)


def letter(operation: Any, value: Any, flags: int) -> Fits | None:
    """Return what tells whether a character fits a part of an expression that is one character; ``None`` for others."""
    if operation is kind.LITERAL:
        return lambda each: ord(each) == value
    if operation is kind.NOT_LITERAL:
        return lambda each: ord(each) != value
    if operation is kind.ANY:
        return lambda each: each != "\n" or bool(flags & re.DOTALL)
    if operation is kind.IN:
        negated = value[0][0] is kind.NEGATE
        return lambda each: any(_is_in(item[0], item[1], each) for item in value) != negated
    return None


def _is_in(operation: Any, value: Any, each: str) -> bool:
    if operation is kind.NEGATE:
        return False
    if operation is kind.LITERAL:
        return bool(ord(each) == value)
    if operation is kind.RANGE:
        return bool(value[0] <= ord(each) <= value[1])
    return _CATEGORIES[value](each)


def _texts(expression: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Give texts that may be bad, each by the number of its repetitions."""
    tree = parser.parse(expression.pattern, expression.flags)
    letters = dict.fromkeys([*_letters(tree), *_MORE_LETTERS])
    for before, repeated in _repetitions(tree, "", expression.flags):
        pumps = [each for each in letters if _fits_first(repeated, each, expression.flags)]
        pumps += [*_witnesses(repeated, expression.flags), before + _witnesses(repeated, expression.flags)[0]]
        for pump in dict.fromkeys(filter(None, pumps)):
            for tail in TAILS:
                yield lambda count, pump=pump, tail=tail, before=before: before + pump * count + tail  # type: ignore[misc]
    for each in letters:
        yield lambda count, each=each: each * count  # type: ignore[misc]


def _letters(nodes: Any) -> Iterator[str]:
    for operation, value in nodes:
        if operation in (kind.LITERAL, kind.NOT_LITERAL):
            yield chr(value)
        elif operation is kind.RANGE:
            yield from (chr(value[0]), chr(value[1]))
        elif operation is kind.IN:
            yield from _letters(value)
        elif operation is kind.BRANCH:
            for branch in value[1]:
                yield from _letters(branch)
        elif operation in (kind.SUBPATTERN, kind.MAX_REPEAT, kind.MIN_REPEAT, kind.ASSERT, kind.ASSERT_NOT):
            yield from _letters(value[-1])


def _repetitions(nodes: Any, before: str, flags: int) -> Iterator[tuple[str, Any]]:
    """Give what is repeated in an expression, each with a text that leads there."""
    for node in nodes:
        operation, value = node
        if operation in (kind.MAX_REPEAT, kind.MIN_REPEAT):
            yield before, value[-1]
            yield from _repetitions(value[-1], before, flags)
        elif operation is kind.SUBPATTERN:
            yield from _repetitions(value[-1], before, flags)
        elif operation is kind.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch, before, flags)
        before += _witnesses([node], flags)[0]


def _witnesses(nodes: Any, flags: int) -> list[str]:
    """Return texts that fit, one for each way that a branch begins."""
    found = [""]
    for operation, value in nodes:
        fits = letter(operation, value, flags)
        if fits is not None:
            tried = [*_letters([(operation, value)]), *_MORE_LETTERS]
            ways = [next(filter(fits, tried))]
        elif operation is kind.SUBPATTERN:
            ways = _witnesses(value[-1], flags)
        elif operation is kind.BRANCH:
            ways = [_witnesses(branch, flags)[0] for branch in value[1]]
        elif operation in (kind.MAX_REPEAT, kind.MIN_REPEAT):
            ways = [each * max(1, value[0]) for each in _witnesses(value[-1], flags)]
        else:
            ways = [""]
        found = [text + way for text in found[:1] for way in ways]
    return found


def _fits_first(nodes: Any, each: str, flags: int) -> bool:
    fits = letter(nodes[0][0], nodes[0][1], flags) if len(nodes) == 1 else None
    return fits is not None and fits(each)
