"""Strategies by name: found, built, explained; and a broken one hurts only itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from textwrap import dedent

import pytest

from multikueue import registry
from multikueue.errors import ConfigurationError
from multikueue.registry import Description, Option
from multikueue.testing import check_strategy, fleet, strategy_workload

PLAIN = """
from multikueue.strategy import Fleet, Nomination, Workload

from dataclasses import dataclass

@dataclass(frozen=True)
class Plain:
    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination(fleet.names)
"""

Install = Callable[..., None]

CHEAPEST = '''
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import EntryPoint, entry_points
from multikueue.strategy import Fleet, Nomination, Workload

@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest worker first."""

    prices: dict[str, float] = field(default_factory=dict)
    patience: timedelta = timedelta(minutes=2)
    step: int = 1

    def __post_init__(self):
        if self.step < 1:
            raise ValueError("expected step to be at least 1")

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        ranked = sorted(fleet.names, key=lambda name: self.prices.get(name, float("inf")))
        return Nomination(tuple(ranked[: self.step]), revisit_after=self.patience)
'''

OPTIONS = "its options are: prices: dict[str, float] = {}; patience: duration = 120s; step: int = 1"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with one module and entry points, as pip would."""
    modules: list[str] = []

    def install(module: str, source: str, group: registry.Group = registry.STRATEGIES, **points: str) -> None:
        site = tmp_path / f"site-{module}"
        info = site / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(dedent(source))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        entries = "\n".join(f"{name} = {module}:{value}" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group.name}]\n{entries}\n")
        monkeypatch.syspath_prepend(str(site))
        modules.append(module)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def refusal(name: str, **options: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        registry.load(name, options)
    return str(caught.value)


def test_the_installed_distributions_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def counted(*, group: str) -> Iterable[EntryPoint]:
        looks.append(group)
        return entry_points(group=group)

    monkeypatch.setattr(registry, "entry_points", counted)
    monkeypatch.syspath_prepend("/nowhere")  # a path that nobody has asked about yet
    for name in registry.names():
        registry.load(name, {})
        registry.is_ours(name, {})

    assert looks == [
        group.name for group in (registry.STRATEGIES, registry.FILTERS, registry.SCORERS) if group.name in looks
    ]


def test_our_own_strategy_is_found_by_its_entry_point() -> None:
    assert "all-at-once" in registry.names()
    nomination = registry.load("all-at-once", {}).nominate(strategy_workload().build(), fleet("a", "b").build())
    assert nomination.clusters == ("a", "b")


def test_a_strategy_of_a_user_is_found_beside_ours_and_built_from_options(install: Install) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    assert {"all-at-once", "cheapest"} <= set(registry.names())

    strategy = registry.load("cheapest", {"prices": {"b": "0.5"}, "patience": "5m", "step": "1"})
    nomination = strategy.nominate(strategy_workload().build(), fleet("a", "b").build())

    assert (nomination.clusters, nomination.revisit_after) == (("b",), timedelta(minutes=5))
    check_strategy(strategy)


@pytest.mark.parametrize("patience", ["PT90S", "90s", "1m30s", "90", 90, timedelta(seconds=90)])
def test_a_duration_may_be_given_in_every_usual_way(install: Install, patience: object) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    strategy = registry.load("cheapest", {"patience": patience})
    nomination = strategy.nominate(strategy_workload().build(), fleet("a").build())
    assert nomination.revisit_after == timedelta(seconds=90)


def test_a_strategy_explains_itself(install: Install) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    assert registry.describe("cheapest") == Description(
        name="cheapest",
        help="The cheapest worker first.",
        options=(
            Option("prices", "dict[str, float]", "{}"),
            Option("patience", "duration", "120s"),
            Option("step", "int", "1"),
        ),
        package="cheapest_pkg 1.2",
    )


def test_an_option_without_default_is_shown_as_one_that_must_be_given(install: Install) -> None:
    source = """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class Named:
            placement: str
            def nominate(self, workload, fleet): ...
    """
    install("named_pkg", source, named="Named")
    assert registry.describe("named").options == (Option("placement", "str", None),)
    assert refusal("named").startswith("strategy 'named': placement: expected")


def test_an_unknown_name_is_told_what_is_installed(install: Install) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    said = refusal("cheap")
    assert said.startswith("strategy 'cheap': expected one that is installed: all-at-once, cheapest")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"patiense": "5m"}, "there is no option patiense", id="an option it does not have"),
        pytest.param({"patience": "soon"}, "patience: expected a duration such as 15m", id="a wrong type"),
        pytest.param({"prices": {"a": "dear"}}, "prices.a: expected a valid number", id="a wrong type deep inside"),
        pytest.param({"step": 0}, "options: expected step to be at least 1", id="what the strategy itself refuses"),
    ],
)
def test_wrong_options_are_told_with_the_right_ones(install: Install, options: dict[str, object], message: str) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    said = refusal("cheapest", **options)
    assert said.startswith(f"strategy 'cheapest': {message}")
    assert said.endswith(OPTIONS)


def test_a_strategy_without_options_says_so(install: Install) -> None:
    install("plain_pkg", PLAIN, plain="Plain")
    assert refusal("plain", step=3) == "strategy 'plain': there is no option step; it has no options"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError", id="an import fails"),
        pytest.param("raise ValueError('boom')", "cannot be imported: ValueError: boom", id="it raises at import"),
        pytest.param("x = 1", "cannot be imported: AttributeError", id="the class is not there"),
        pytest.param(
            "class It: ...", "expected {} to be a frozen dataclass with a method nominate", id="a plain class"
        ),
        pytest.param("It = 7", "expected {} to be a frozen dataclass with a method nominate", id="no class"),
        pytest.param(
            """
            from dataclasses import dataclass
            @dataclass
            class It:
                def nominate(self, workload, fleet): ...
            """,
            "expected {} to be a frozen dataclass with a method nominate",
            id="not frozen",
        ),
        pytest.param(
            """
            from dataclasses import dataclass
            @dataclass(frozen=True)
            class It:
                def __post_init__(self):
                    raise TypeError("boom")
                def nominate(self, workload, fleet): ...
            """,
            "cannot be built: TypeError: boom",
            id="it raises when built",
        ),
        pytest.param(
            """
            from __future__ import annotations
            from dataclasses import dataclass
            @dataclass(frozen=True)
            class It:
                option: Unknown = 1
                def nominate(self, workload, fleet): ...
            """,
            "cannot be built: ",
            id="the type of an option is a riddle",
        ),
    ],
)
def test_a_broken_strategy_hurts_only_itself(install: Install, source: str, message: str) -> None:
    install("broken_pkg", source, broken="It")
    assert message.format("broken_pkg:It") in refusal("broken")
    assert "broken" in registry.names()
    check_strategy(registry.load("all-at-once", {}))


def test_one_name_for_two_strategies_is_refused(install: Install) -> None:
    install("first_pkg", CHEAPEST, cheapest="Cheapest")
    install("second_pkg", CHEAPEST, cheapest="Cheapest")
    assert refusal("cheapest") == (
        "strategy 'cheapest': installed more than once: first_pkg:Cheapest, second_pkg:Cheapest"
    )


def test_ours_are_those_that_come_with_this_package(install: Install) -> None:
    install("cheapest_pkg", CHEAPEST, cheapest="Cheapest")
    assert registry.is_ours("incremental", {})
    assert not registry.is_ours("cheapest", {})
    with pytest.raises(ConfigurationError, match="strategy 'best': expected one that is installed"):
        registry.is_ours("best", {})


def test_a_strategy_says_what_it_reads() -> None:
    assert registry.reads(registry.load("external", {})) == {"placementdecisions"}
    assert registry.reads(registry.load("all-at-once", {})) == frozenset()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, set()),
        ({"filters": ["named"], "scorers": ["order"]}, set()),
        ({"filters": ["room"]}, {"room"}),
        ({"scorers": ["order", {"wait": {}, "weight": 2}]}, {"waits"}),
        ({"most": 2, "extra": "any", "filters": ["room"], "hedge": 0.95}, {"room", "waits"}),
    ],
    ids=["no parts", "parts that read nothing", "a filter", "a scorer with a weight", "a filter and an option"],
)
def test_a_strategy_reads_what_its_parts_read(options: dict[str, object], words: set[str]) -> None:
    assert registry.reads(registry.load("composed", {"most": 1} | options)) == words


@pytest.mark.parametrize(
    "words", ["placementdecisions", 7, ("placementdecisions", 7)], ids=["text", "a number", "both"]
)
def test_what_it_reads_is_a_tuple_of_words(words: object) -> None:
    kind = type("Reader", (), {"reads": words, "nominate": lambda *_: None})
    assert registry.reads(kind()) == ({"placementdecisions"} if isinstance(words, tuple) else set())


def test_a_strategy_is_built_from_its_module_and_class_without_being_installed(install: Install) -> None:
    install("cheapest_pkg", CHEAPEST)
    strategy = registry.load_from("cheapest_pkg:Cheapest", {"step": 2})
    assert strategy.nominate(strategy_workload().build(), fleet("a", "b", "c").build()).clusters == ("a", "b")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("cheapest_pkg", "expected module:Class"),
        (":Cheapest", "expected module:Class"),
        ("cheapest_pkg:", "expected module:Class"),
        ("cheapest_pkg:Cheapest [x]", "expected module:Class"),
        ("cheapest_pkg:Nothing", "cannot be imported: AttributeError"),
        ("nowhere:Cheapest", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_path_that_leads_nowhere_is_told(install: Install, path: str, problem: str) -> None:
    install("cheapest_pkg", CHEAPEST)
    with pytest.raises(ConfigurationError) as caught:
        registry.load_from(path, {})
    assert problem in str(caught.value)


def test_a_module_that_ends_the_program_hurts_only_itself(install: Install) -> None:
    install("leaving_pkg", "raise SystemExit(3)", leaving="It")
    assert "cannot be imported: SystemExit: 3" in refusal("leaving")


# Parts.

NEWEST = '''
from dataclasses import dataclass
from multikueue.strategy import Score

@dataclass(frozen=True)
class Newest:
    """The newest worker."""

    version: str = "1.37"

    def score(self, workload, worker, fleet):
        return Score(float(worker.labels.get("version") == self.version), "version")
'''


def test_parts_are_built_from_their_names_and_options(install: Install) -> None:
    install("newest_pkg", NEWEST, group=registry.SCORERS, newest="Newest")
    options = {
        "filters": ["named", {"labels": {"exclude": {"region": ["us"]}}}],
        "scorers": [{"newest": {"version": "1.38"}, "weight": 2}, {"order": None}],
    }
    workers = fleet().worker("a").worker("b", labels={"version": "1.38"}).worker("c", labels={"region": "us"})
    strategy = registry.load("composed", options)
    assert strategy.nominate(strategy_workload().build(), workers.build()).clusters == ("b",)
    assert [each.weight for each in strategy.scorers] == [2.0, 1.0]
    check_strategy(strategy)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"filters": "named"}, "filters: expected a list of filters, got 'named'"),
        (
            {"filters": ["name"]},
            "filters.0: filter 'name': expected one that is installed: apart, labels, named, placement, room, spend, taints, "
            "together",
        ),
        ({"filters": ["named", 7]}, "filters.1: expected the name of a filter, or name: options, got 7"),
        ({"filters": [{"named": 7}]}, "filters.0: expected the name of a filter, or name: options, got {'named': 7}"),
        ({"filters": [{"labels": {"mach": {}}}]}, "filters.0: filter 'labels': there is no option mach; its options"),
        ({"scorers": [{"tiers": {}}]}, "scorers.0: scorer 'tiers': order: expected a value"),
        ({"scorers": [{"tiers": {"order": []}}]}, "scorers.0: scorer 'tiers': options: expected order to name"),
        ({"scorers": [{"order": {}, "data": {}}]}, "scorers.0: expected the name of a scorer, or name: options, got"),
        ({"scorers": [{"order": {}, "weight": 0}]}, "scorers.0: expected weight to be a number greater than 0, got 0"),
        ({"scorers": [{"order": {}, "weight": "2"}]}, "scorers.0: expected weight to be a number greater than 0"),
        ({"scorers": [{"weight": 2}]}, "scorers.0: expected the name of a scorer, or name: options, got {'weight': 2}"),
    ],
)
def test_wrong_parts_are_told_with_their_place(options: dict[str, object], problem: str) -> None:
    assert refusal("composed", **options).startswith(f"strategy 'composed': {problem}")


def test_a_strategy_with_a_part_of_somebody_else_is_not_ours(install: Install) -> None:
    install("newest_pkg", NEWEST, group=registry.SCORERS, newest="Newest")
    assert registry.is_ours("composed", {"scorers": ["order", {"tiers": {"order": ["a"]}, "weight": 3}]})
    assert not registry.is_ours("composed", {"scorers": ["order", {"newest": {}, "weight": 3}]})
    assert registry.is_ours("composed", {"scorers": 7, "filters": [7]})


def test_a_part_is_built_from_its_module_and_class(install: Install) -> None:
    install("newest_pkg", NEWEST, group=registry.SCORERS)
    check_strategy(registry.load_from("newest_pkg:Newest", {"version": "1.36"}))
    with pytest.raises(ConfigurationError, match="a frozen dataclass with a method nominate or refuses or score"):
        registry.load_from("fractions:Fraction", {})


def test_the_options_that_take_parts_are_told_as_lists() -> None:
    told = {option.name: option.type for option in registry.describe("composed").options}
    assert (told["filters"], told["scorers"]) == ("list of filters", "list of scorers")
    assert registry.describe("tiers", registry.SCORERS).package.startswith("multikueue ")
