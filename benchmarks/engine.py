"""The speed of the quota engine alone: Kueue's scheduler workloads, and the cost per workload in growing crowds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.replay import BASELINE, LARGE, SIZES, Outcome, Scenario, crowded, replay

__all__ = ["as_markdown", "as_text", "measure"]


def measure(say: Callable[[str], None], *, sizes: Sequence[int] = SIZES) -> tuple[list[Outcome], list[Outcome]]:
    """Outcomes of Kueue's workloads, and of crowds of growing size. Takes some two minutes of CPU."""

    def play(scenario: Scenario) -> Outcome:
        say(f"replaying {scenario.name}: {scenario.size} workloads")
        return replay(scenario)

    return [play(each) for each in (BASELINE, LARGE)], [play(crowded(size)) for size in sizes]


def as_text(published: Sequence[Outcome], crowds: Sequence[Outcome]) -> str:
    lines = [f"{'':<14}{'workloads':>10}{'CPU s':>8}{'goal':>6}{'us each':>9}  mean ms to admission (Kueue's)"]
    for each in published:
        cells = f"{each.scenario.size:>10}{each.seconds:>8.1f}{each.scenario.goal:>6.0f}{each.each:>9.0f}"
        verdict = "pass" if each.met else "MISS"
        lines.append(f"{each.scenario.name:<14}{cells}  {_waits(each)}  {verdict}")
    lines += [f"{each.scenario.name:<14}{'':>24}{each.each:>9.0f}" for each in crowds]
    return "\n".join(lines)


def as_markdown(published: Sequence[Outcome], crowds: Sequence[Outcome]) -> str:
    """Two tables, and a chart in Mermaid."""
    table = ["| workload | workloads | CPU, s | goal, s | mean ms to admission (Kueue's) |", "|---|---|---|---|---|"]
    for each in published:
        cells = (
            each.scenario.name,
            each.scenario.size,
            f"{each.seconds:.1f}",
            f"{each.scenario.goal:.0f}",
            _waits(each),
        )
        table.append(f"| {' | '.join(map(str, cells))} |")
    growth = ["| waiting at once | µs per workload |", "|---|---|"]
    growth += [f"| {each.scenario.size} | {each.each:.0f} |" for each in crowds]
    return "\n\n".join(("\n".join(table), "\n".join(growth), _chart(crowds)))


def _waits(outcome: Outcome) -> str:
    waits = (f"{each.name} {outcome.waited[each.name]:.0f} ({each.published_ms})" for each in outcome.scenario.classes)
    return ", ".join(waits)


def _chart(crowds: Sequence[Outcome]) -> str:
    highest = max(each.each for each in crowds)
    lines = [
        "```mermaid",
        "xychart-beta",
        '    title "Microseconds per workload"',
        f'    x-axis "waiting at once" [{", ".join(str(each.scenario.size) for each in crowds)}]',
        f'    y-axis "µs" 0 --> {1.5 * highest:.0f}',
        f"    line [{', '.join(f'{each.each:.0f}' for each in crowds)}]",
        "```",
    ]
    return "\n".join(lines)
