"""The screen of `top`: a table that follows the namespace, and the output of the commands that its keys run.

A key runs the command of `zae-limiter` that does it, and shows the command (``running``).
"""

import asyncio
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Paste
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from zae_limiter_manifest.problems import printable

from ..columns import counted
from ..errors import one_line
from ..skipped import collecting, in_brief
from .fitting import fitted
from .health import Health
from .reading import Reader
from .rows import ORDERS, WIDE, Order, Place, Reading, Recent, Row, State
from .running import CHANGES, change_of, command_of, run
from .tree import lines_of
from .trend import STEPS, Trend, spark

ONE_LINE: Final = 80  # columns that the keys need in one line
TERMINATED: Final = 128 + signal.SIGTERM  # as shells have it
AROUND: Final = 4  # columns beside a line, the scroll bar's among them
AROUND_OUTPUT: Final = 5
STYLES: Final[Mapping[State, str]] = {"out": "bold red", "low": "yellow", "": ""}


class Keys(Footer):
    """The keys: in two lines where they are too long for one."""

    def compose(self) -> ComposeResult:
        """Lay out a key beside the other; a grid has five in a line."""
        yield from super().compose()
        self.styles.grid_size_columns = 5


class Typed(Input):
    """A field for a word that is typed: what is pasted into it is dropped."""

    def _on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()


class Ask(ModalScreen[bool]):
    """Asks before a change: for a word and Enter, which no pasted text and no slip of a finger gives."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "no")]

    def __init__(self, command: str, word: str, told: Sequence[str]) -> None:
        super().__init__()
        self._command, self._word, self._told = command, word, told

    def compose(self) -> ComposeResult:
        """Show what to know, the command, and the field."""
        question = f"Run this command? Type {self._word} and press Enter; Escape leaves."
        text = "\n\n".join(map(printable, [*self._told, question, self._command]))
        yield VerticalScroll(Static(Text(text), id="asked"), Typed(placeholder=self._word, id="word"), id="box")

    def on_mount(self) -> None:
        """Wait for the word."""
        self.query_one("#word", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close if it is the word; else begin again."""
        event.stop()
        if event.value.strip() == self._word:
            self.dismiss(True)
        else:
            event.input.value = ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Keep the word from the filter of the rows."""
        event.stop()

    def action_leave(self) -> None:
        """Close without the change."""
        self.dismiss(False)


class Output(ModalScreen[None]):
    """Shows a command, and what it prints."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """Show the command at once."""
        command = shlex.join(["zae-limiter", *self._words])
        yield VerticalScroll(Static(Text(f"$ {command}"), id="command"), Static("...", id="output"), id="box")
        yield Footer()

    def on_mount(self) -> None:
        """Run it."""
        self._run(max(20, self.app.size.width - AROUND_OUTPUT))

    @work(thread=True)
    def _run(self, width: int) -> None:
        self.app.call_from_thread(self._show, run(self._words, width))

    def _show(self, text: str) -> None:
        self.query_one("#output", Static).update(Text(text))


@dataclass(slots=True)
class Look:
    """What is shown of the rows, and how: keys change it."""

    order: Order
    tree: bool = True
    only: str = ""


class TopScreen(App[None]):
    """The table of a namespace, read again every some seconds by a thread. It changes nothing."""

    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (ONE_LINE, "-wide")]  # noqa: RUF012 - the base has it
    CSS = """
    #box {
        margin: 1 0; padding: 1 1; border: round $accent; background: $surface; height: auto; max-height: 90%;
        scrollbar-gutter: stable; scrollbar-size-vertical: 1;
    }
    #command { color: $accent; margin-bottom: 1; }
    #health, #state { height: auto; max-height: 3; }
    #filter { display: none; }
    .-narrow Keys { layout: grid; grid-rows: 1; height: 2; }
    Ask, Output { align: center middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),  # everywhere, in a question or a field, too
        Binding("w,enter", "look('why')", "why"),
        Binding("l", "look('lift')", "lift", show=False),
        Binding("x", "look('disable')", "disable", show=False),
        Binding("u", "look('usage')", "usage"),
        Binding("d", "look('changes')", "changes"),
        Binding("s", "sort", "sort"),
        Binding("t", "tree", "tree"),
        Binding("slash", "filter", "filter"),
        Binding("p", "pause", "pause"),
        Binding("escape", "no_filter", show=False),
    ]

    def __init__(
        self, reader: Reader, health: Health, look: Look, *, title: str, every: float, options: Sequence[str]
    ) -> None:
        super().__init__()
        self._reader, self._health, self._look = reader, health, look
        self._name, self._every, self._options = title, every, options
        self._recent, self._trend = Recent(every), Trend()
        self._paused = self._reads = False
        self._rows: list[Row] = []
        self._shown: list[Row] = []  # a line each: in a tree, a row is below each of its parents

    def compose(self) -> ComposeResult:
        """Lay out: health, table, filter, state, keys."""
        yield Static("", id="health")
        yield DataTable[Text](cursor_type="row", id="rows")
        yield Input(placeholder="entity or resource", id="filter")
        yield Static("reading...", id="state")
        yield Keys(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to read, and leave the terminal as it was if the process is to end."""
        with suppress(NotImplementedError):  # on Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, None, TERMINATED)
        self._begin_to_read()
        self.set_interval(self._every, self._read_again)

    def on_resize(self) -> None:
        """Lay out the columns for the new width."""
        self._show()

    def _read_again(self) -> None:
        if not self._paused and not self._reads:  # a slow store is not asked again before it answers
            self._begin_to_read()

    def _begin_to_read(self) -> None:
        self._reads = True
        self._read()

    @work(thread=True, exclusive=True, group="read")
    def _read(self) -> None:
        from zae_limiter import ZAELimiterError

        problem = ""
        with collecting() as skipped:
            try:
                self.call_from_thread(self._take, self._reader.read())
                self._reader.read_change()
            except ZAELimiterError as error:  # an outage: the last rows stay
                problem = one_line(str(error))
            self.call_from_thread(
                self._tell, "; ".join([problem or self._health.line(), *in_brief(skipped.take_errors())])
            )

    def _take(self, reading: Reading) -> None:
        self._recent.add(reading)
        self._trend.add(reading)
        self._show()

    def _tell(self, health: str) -> None:
        self._reads = False
        if not self.query("#health"):  # the answer came while the screen is taken down
            return
        self.query_one("#health", Static).update(Text(printable(f"{self._name}: {health}"), style="bold"))
        if self._recent:
            self.query_one("#state", Static).update(Text(printable(self._state())))

    def _show(self) -> None:
        if not self._recent or not self.query("#rows"):
            return
        table = self.query_one("#rows", DataTable)
        wide = self.size.width >= WIDE
        before = [row.place for row in self._shown[: table.cursor_row + 1]]
        look = self._look
        self._rows = self._recent.rows(look.order, look.only, self._reader.most, tree=look.tree)
        lines = [*lines_of(self._rows, self._recent.parents if look.tree else {}, symbols=True)]
        self._shown = [row for _, row in lines]
        table.clear(columns=True)
        head, *shown = fitted(lines, self._trends(), wide=wide, width=self.size.width - AROUND)
        table.add_column(head, width=len(head))
        for row, line in zip(self._shown, shown, strict=True):
            table.add_row(Text(printable(line), style=STYLES[row.state]))
        if before and (again := [at for at, row in enumerate(self._shown) if row.place == before[-1]]):
            nth = before.count(before[-1])  # of the lines of this place, the cursor stays on the same
            table.move_cursor(row=again[min(nth, len(again)) - 1], scroll=False)
        self.query_one("#state", Static).update(Text(printable(self._state())))

    def _trends(self) -> dict[Place, str]:
        """Return the line of bars of each row: refusals if there were any, marked by an `!`, else use."""
        found = {row.place: self._trend.of(row.place, row.limit) for row in self._rows}
        if not any(steps for _, steps in found.values()):  # in the first half minute
            return {}
        return {place: f"{spark(steps, STEPS)}{'!' if refused else ' '}" for place, (refused, steps) in found.items()}

    def _state(self) -> str:
        refused = sum(row.refused_per_minute or 0 for row in self._rows)
        parts = [f"{counted(len(self._rows), 'bucket')} by {self._look.order}", f"{refused:,.0f} refused a minute"]
        if not self._reader.complete:
            parts.append(f"usage of {self._reader.known:,} so far")
        if (change := self._reader.change) is not None:
            parts.append(
                f"last change {change.at[11:16]} {change.entity_id} by {change.principal or 'an unknown principal'}"
            )
        if self._look.only:
            parts.append(f"only {self._look.only!r}")
        if self._paused:
            parts.append("paused")
        return "  ".join(parts)

    def _chosen(self) -> Row | None:
        row = self.query_one("#rows", DataTable).cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def action_look(self, what: str) -> None:
        """Run the command of a key for the row under the cursor; ask before a change."""
        row = self._chosen()
        if row is None:
            return
        if what not in CHANGES:
            self.push_screen(Output(command_of(what, row.place, self._options)))
        else:
            self.change(what, row)

    def change(self, what: str, row: Row) -> None:
        """Say that this screen changes nothing, and how to."""
        again = f"To {what} {row.place.entity_id} from here, start top with --allow-changes."
        self.notify(printable(f"This screen changes nothing. {again}"), markup=False)

    def on_data_table_row_selected(self) -> None:
        """Show why, for the row that was entered or clicked."""
        self.action_look("why")

    def action_sort(self) -> None:
        """Order by the next column."""
        self._look.order = ORDERS[(ORDERS.index(self._look.order) + 1) % len(ORDERS)]
        self._show()

    def action_tree(self) -> None:
        """Show entities below their parents, or by the order alone."""
        self._look.tree = not self._look.tree
        self._show()

    def action_pause(self) -> None:
        """Stop to read, or go on."""
        self._paused = not self._paused
        self._show()

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what has this part."""
        self._look.only = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """Go back to the table."""
        self.query_one("#filter", Input).display = bool(self._look.only)
        self.query_one("#rows", DataTable).focus()

    def action_no_filter(self) -> None:
        """Show all again."""
        field = self.query_one("#filter", Input)
        field.value, field.display = "", False
        self.query_one("#rows", DataTable).focus()


class ChangingScreen(TopScreen):
    """The same with the keys that change limits; each asks first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "look('lift')", "lift"),
        Binding("x", "look('disable')", "disable"),
    ]

    def change(self, what: str, row: Row) -> None:
        """Ask, then run the command of a change for a row."""
        told, words = change_of(what, row, self._options)

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - Textual calls it by position
            if yes:
                self.push_screen(Output(words))

        word = words[1] if words[0] == "bucket" else words[0]
        self.push_screen(Ask(shlex.join(["zae-limiter", *words]), word, told), answered)
