"""The animated picture of a demo: what it shows when, and how little it keeps."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from rich.text import Text

from multikueue_simulator.demo.screen.film import Film, filmed

SVG = "{http://www.w3.org/2000/svg}"


class _At:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def film_of(*pictures: tuple[float, Text]) -> ElementTree.Element:
    clock = _At()
    film = Film(clock)
    for clock.seconds, picture in pictures:
        film.take(picture)
    return ElementTree.fromstring(film.svg())  # our own


def test_each_picture_is_shown_from_its_time_on() -> None:
    style = film_of((0.0, Text("one")), (6.0, Text("two")))[0].text or ""
    assert "film 10.0s step-end infinite" in style, "the last one stays for 4 seconds"
    assert re.findall(r"([\d.]+)%\{transform:translateX\((-?[\d.]+)px\)", style) == [
        ("0.000", "0"),
        ("60.000", "-800.8"),
    ]


def test_a_line_that_pictures_share_is_kept_once() -> None:
    lines = film_of((0.0, Text("head\none")), (1.0, Text("head\ntwo"))).findall(f"{SVG}defs/{SVG}g")
    assert ["".join(line.itertext()) for line in lines] == ["head", "one", "two"]


def test_what_is_equal_or_too_soon_is_left_out() -> None:
    shown = film_of((0.0, Text("one")), (0.2, Text("soon")), (1.0, Text("one")), (2.0, Text("two")))
    assert len(shown.findall(f"{SVG}g/{SVG}use")) == 2


def test_columns_and_colors_are_those_of_the_terminal() -> None:
    line = film_of((0.0, Text.assemble("  a", ("b<", "bold green"))))[2][0]
    assert [(each.text, each.get("class"), each.get("x")) for each in line] == [
        ("a", None, "16.8"),
        ("b<", "green bold", "25.2"),
    ]


def test_the_file_is_written_at_the_end_of_an_interrupted_demo_too(tmp_path: Path) -> None:
    try:
        with filmed(tmp_path / "demo.svg") as take:
            take(Text("one"))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert (tmp_path / "demo.svg").read_text().startswith("<svg ")


def test_without_a_picture_there_is_nothing() -> None:
    assert Film(lambda: 0.0).svg() == ""
