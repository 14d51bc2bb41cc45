"""`multikueue top`, one file for all screens: the tables with keys as in k9s, a workload's story, and its logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from multikueue.api.meta import ObjectKey
from multikueue_console.terminal import views
from multikueue_console.terminal.views import MOST_ROWS, SeenFleet, TextTable, plain

__all__ = ["Logs", "TopApp", "WorkloadAction"]

REFRESH = 0.5
"""Seconds between two looks at whether anything has changed."""

AGEING = 20
"""Looks after which ages are drawn again though nothing has changed."""

Logs = Callable[[ObjectKey], AsyncIterator[str]]
"""Follows the logs of a workload's job, line by line."""

WorkloadAction = Callable[[str, ObjectKey], Awaitable[str]]
"""Does what a key asks for to a workload, and returns what came of it in a sentence."""

VIEWS: Mapping[str, str] = {
    "workloads": "workloads",
    "workload": "workloads",
    "wl": "workloads",
    "w": "workloads",
    "jobs": "workloads",
    "queues": "queues",
    "queue": "queues",
    "q": "queues",
    "clusters": "clusters",
    "cluster": "clusters",
    "c": "clusters",
}
"""What may be typed after `:`, beside `quit`."""

ACTIONS: Mapping[str, str] = {"h": "hold", "r": "release", "d": "cancel"}

COLOURS: Mapping[str, str] = {  # of cells that say just that
    "Running": "green",
    "Active": "green",
    "Starting": "cyan",
    "Pending": "yellow",
    "Held": "yellow",
    "Cordoned": "yellow",
    "Failed": "red",
    "Away": "red",
    "Gone": "red",
    "Unknown": "magenta",
    "Finished": "bright_black",
}

HELP = """\
:        go to queues, clusters or workloads (:q, :c, :w), or :quit
/        filter: words that a row must have; !word, which it must not have
enter    a workload's story; of a queue or cluster, its workloads
l        follow the logs of a workload
s  S     sort by the next column; the other way round
j k g G  down, up, first, last
esc      back; clears the filter
?        this help
"""

HELP_OF_ACTIONS = """
h r d    hold, release or cancel the workload, after a question
"""


class HelpScreen(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter,q", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(Text(self._text), id="help")


class AskScreen(ModalScreen[bool]):
    """A question that is answered with y or anything else."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(Text(f"{self._question}\n\ny: yes    any other key: no"), id="help")

    def on_key(self, event: Any) -> None:
        event.stop()
        self.dismiss(event.key == "y")


class StoryScreen(Screen[None]):
    """One workload: why it waits or where it runs, and what happened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("l", "logs", "Logs"),
        Binding("question_mark", "app.help", "Help"),
    ]

    def __init__(self, key: ObjectKey) -> None:
        super().__init__()
        self.key = key

    def compose(self) -> ComposeResult:
        yield Static(Text(str(self.key), style="bold"), id="title")
        yield Vertical(Static(id="story"), id="scroll")
        yield Footer()

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(2 * REFRESH, self._draw)

    def action_logs(self) -> None:
        self.top.push_screen(LogScreen(self.key))

    @property
    def top(self) -> TopApp:
        app = self.app
        assert isinstance(app, TopApp)
        return app

    def _draw(self) -> None:
        fleet = self.top.fleet
        story = fleet.story(self.key)
        lines = ["It is gone."]
        if story is not None:
            lines = views.story_lines(story, fleet.now(), self.top.expected(self.key))
        self.query_one("#story", Static).update(Text("\n".join(map(plain, lines))))


class LogScreen(Screen[None]):
    """The logs of one workload, which are followed until the screen is left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, key: ObjectKey) -> None:
        super().__init__()
        self.key = key

    def compose(self) -> ComposeResult:
        yield Static(Text(f"logs of {self.key}", style="bold"), id="title")
        yield RichLog(id="log", max_lines=10_000, wrap=True, auto_scroll=True)
        yield Footer()

    def on_mount(self) -> None:
        self._follow()

    @work
    async def _follow(self) -> None:
        log, app = self.query_one(RichLog), self.app
        assert isinstance(app, TopApp)
        lines = app.logs(self.key)
        async with aclosing(lines) as told:  # type: ignore[type-var]  # each is a generator
            async for line in told:
                log.write(Text(plain(line)))
        log.write(Text("The logs end here.", style="dim"))


class TopApp(App[None]):
    """Tables of what a watch sees. Without `act` it changes nothing."""

    CSS = """
    #title, #facts { height: 1; }
    #facts { color: $text-muted; }
    #prompt { display: none; border: none; height: 1; padding: 0; }
    #help { width: auto; height: auto; max-width: 90%; border: round $primary; padding: 1 2; background: $surface; }
    HelpScreen, AskScreen { align: center middle; }
    #scroll { height: 1fr; overflow-y: auto; }
    DataTable, RichLog { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "prompt(':')", ":", key_display=":", show=False),
        Binding("slash", "prompt('/')", "Filter", key_display="/"),
        Binding("enter", "open", "Open", priority=False),
        Binding("l", "logs", "Logs"),
        Binding("s", "sort(False)", "Sort"),
        Binding("S,shift+s", "sort(True)", "Reverse", show=False),
        Binding("j", "move('cursor_down')", show=False),
        Binding("k", "move('cursor_up')", show=False),
        Binding("g", "move('scroll_top')", show=False),
        Binding("G,shift+g", "move('scroll_bottom')", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "leave", "Back"),
        *(Binding(key, f"act('{verb}')", verb.capitalize(), show=False) for key, verb in ACTIONS.items()),
    ]

    def __init__(
        self,
        fleet: SeenFleet,
        *,
        title: str = "",
        logs: Logs,
        act: WorkloadAction | None = None,
        expected: Callable[[ObjectKey], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self.fleet, self.logs, self.expected = fleet, logs, expected
        self._act, self._where = act, title
        self._view, self._of, self._filter = "workloads", "", ""
        self._mark = ""
        self._sort: int | None = None
        self._is_falling = False
        self._drawn: tuple[object, ...] = ()
        self._looks = 0
        self._table: TextTable | None = None

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield DataTable[Text](cursor_type="row", zebra_stripes=False, id="table")
        yield Static(id="facts")
        yield Input(id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        self.theme = "textual-dark"
        self._table_widget.focus()
        self.refresh_table()
        self.set_interval(REFRESH, self.refresh_table)

    @property
    def _table_widget(self) -> DataTable[Text]:
        return self.screen_stack[0].query_one("#table", DataTable)

    def refresh_table(self) -> None:
        """Draw the table again if anything has changed, with the cursor on the same row."""
        self._looks += 1
        present = (
            self.fleet.version,
            self._view,
            self._of,
            self._filter,
            self._sort,
            self._is_falling,
            self._looks // AGEING,
        )
        if present == self._drawn:
            return
        is_other = self._drawn[1:3] != present[1:3]
        self._drawn = present
        table = self._table = self._computed()
        widget = self._table_widget
        chosen, top = self._chosen(), widget.scroll_y
        widget.clear(columns=is_other)
        if is_other:
            for number, title in enumerate(table.titles):
                widget.add_column(title, key=str(number))
        for line in table.lines[:MOST_ROWS]:
            widget.add_row(*(Text(plain(cell), style=COLOURS.get(cell, "")) for cell in line.cells), key=line.key)
        if not is_other and chosen is not None and chosen in widget.rows:
            widget.move_cursor(row=widget.get_row_index(chosen), scroll=False)
            widget.scroll_to(y=top, animate=False)
        self._tell(table)

    def _computed(self) -> TextTable:
        if self._view == "queues":
            table = views.queues(self.fleet)
        elif self._view == "clusters":
            table = views.clusters(self.fleet)
        else:
            table = views.workloads(self.fleet, of=self._of)
        table = views.filtered(table, self._filter)
        if self._sort is not None:
            table = views.sorted_by(table, self._sort, is_falling=self._is_falling)
        return table

    def _tell(self, table: TextTable) -> None:
        of = f" of {self._of}" if self._of else ""
        title = Text.assemble((f"{self._view}{of}", "bold"), f" ({len(table.lines)})  {self._where}")
        facts = [f"/{self._filter}"] if self._filter else []
        if self._sort is not None:
            facts.append(f"by {table.titles[self._sort].lower()} {'↓' if self._is_falling else '↑'}")
        if len(table.lines) > MOST_ROWS:
            facts.append(f"the first {MOST_ROWS} of {len(table.lines)}: / finds the others")
        facts += [f"{plural}: {why}" for plural, why in self.fleet.health.items()]
        main = self.screen_stack[0]
        main.query_one("#title", Static).update(title)
        main.query_one("#facts", Static).update(Text("  ".join(facts)))

    def _chosen(self) -> str | None:
        """The key of the row under the cursor."""
        widget = self._table_widget
        if not widget.row_count or not widget.is_valid_coordinate(widget.cursor_coordinate):
            return None
        return widget.coordinate_to_cell_key(widget.cursor_coordinate).row_key.value

    def _workload(self) -> ObjectKey | None:
        key = self._chosen()
        if self._view != "workloads" or key is None:
            return None
        namespace, _, name = key.partition("/")
        return ObjectKey(namespace, name)

    # --- keys ---

    def action_prompt(self, mark: str) -> None:
        prompt = self.query_one("#prompt", Input)
        prompt.value = self._filter if mark == "/" else ""
        prompt.placeholder = "filter" if mark == "/" else "queues, clusters, workloads or quit"
        self._mark = mark
        prompt.display = True
        self.screen.set_focus(prompt)  # at once: the next keys may have been typed already

    @on(Input.Changed, "#prompt")
    def _typed(self, event: Input.Changed) -> None:
        if event.input.display and self._mark == "/":
            self._filter = event.value
            self.refresh_table()

    @on(Input.Submitted, "#prompt")
    def _entered(self, event: Input.Submitted) -> None:
        is_command = self._mark == ":"
        self._close_prompt()
        if not is_command:
            return
        word = event.value.strip().lower()
        if word in ("quit", "exit", "q!"):
            self.exit()
        elif word in VIEWS:
            self._go(VIEWS[word])
        elif word:
            self.notify(
                f"There is no {word!r}: type queues, clusters, workloads or quit.", severity="warning", markup=False
            )

    def _close_prompt(self) -> None:
        self.query_one("#prompt", Input).display = False
        self.screen.set_focus(self._table_widget)

    def _go(self, view: str, of: str = "") -> None:
        self._view, self._of, self._filter, self._sort, self._is_falling = view, of, "", None, False
        self.refresh_table()

    def action_leave(self) -> None:
        if self.query_one("#prompt", Input).display:
            if self._mark == "/":
                self._filter = ""
            self._close_prompt()
        elif self._filter:
            self._filter = ""
        elif self._of:
            self._go("queues" if any(self._of == each.name for each in self._queues()) else "clusters")
        self.refresh_table()

    def _queues(self) -> list[Any]:
        from multikueue_console.model.fleet import flat
        from multikueue_console.model.queues import queue_trees

        return list(flat(queue_trees(self.fleet.seen)))

    @on(DataTable.RowSelected)
    def _selected(self, _: DataTable.RowSelected) -> None:
        self.action_open()

    def action_open(self) -> None:
        key = self._chosen()
        if key is None:
            return
        workload = self._workload()
        if workload is not None:
            self.push_screen(StoryScreen(workload))
        else:
            self._go("workloads", key.rpartition("/")[0] if self._view == "queues" else key)

    def action_logs(self) -> None:
        if (key := self._workload()) is not None:
            self.push_screen(LogScreen(key))

    def action_sort(self, is_other_way: bool) -> None:
        if is_other_way:
            self._is_falling = not self._is_falling
        else:
            columns = len(views.TITLES[self._view])
            self._sort = 0 if self._sort is None else self._sort + 1 if self._sort + 1 < columns else None
        self.refresh_table()

    def action_move(self, how: str) -> None:
        getattr(self._table_widget, f"action_{how}")()

    def action_help(self) -> None:
        self.push_screen(HelpScreen(HELP + (HELP_OF_ACTIONS if self._act else "")))

    @work
    async def action_act(self, verb: str) -> None:
        key = self._workload()
        if key is None:
            return
        if self._act is None:
            self.notify(
                f"This view changes nothing: start it with --actions to {verb}.", severity="warning", markup=False
            )
            return
        if await self.push_screen_wait(AskScreen(f"{verb.capitalize()} {key}?")):
            self.notify(plain(await self._act(verb, key)), markup=False)
