"""The film of `multikueue demo --web` that README shows: `make film`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream
from PIL import Image
from playwright.async_api import Page

from tests.console.browser.stage import browser

__all__ = ["shot"]

WIDTH, HEIGHT = 1180, 780

SPEED = 0.5
"""Of the demo: a picture must not take longer than what it shows."""

STEP = 0.4
"""Seconds of the film from one picture to the next."""

EVERY = 1.0
"""Seconds of the demo's script from one picture to the next."""

LAST = 4.0
"""Seconds for which the last picture stays."""

STORY = (13.5, 18.5)
"""Seconds of the script between which the page of the job is shown that lost its worker."""

HERO = "training"

ACT = re.compile(r" *\d+\.\d s\s+(?!\s|\d+ of |try: )(.*)")


@dataclass(slots=True)
class Demo:
    """What the demo has said so far: the link, the seconds of its script, what happens now, and whether all is done."""

    link: str = ""
    act: str = "90 jobs come in two queues, for three clusters"
    is_over: bool = False
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def read(self, lines: AsyncIterator[str]) -> None:
        async for line in lines:
            if "in the browser: " in line:
                self.link = line.partition("in the browser: ")[2].strip()
                self.opened.set()
            elif found := ACT.match(line):
                self.act = found[1]
            self.is_over = self.is_over or "until Ctrl-C; the keys" in line


async def shot() -> list[Image.Image]:
    """The demo from its first job to its last, as pictures."""
    command = [sys.executable, "-m", "multikueue", "demo", "--web", "--keep", "--speed", str(SPEED)]
    env = {**os.environ, "BROWSER": "true", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    demo = Demo()
    async with (
        await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None, env=env) as process,
        anyio.create_task_group() as tasks,
        browser() as chrome,
    ):
        assert process.stdout is not None, "it is a pipe"
        tasks.start_soon(demo.read, _lines(TextReceiveStream(process.stdout)))
        await demo.opened.wait()
        began = anyio.current_time()
        context = await chrome.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce"
        )
        page = await context.new_page()
        await page.goto(demo.link)
        await page.wait_for_selector("#live.on")
        pictures = await _pictures(page, demo, began)
        process.terminate()  # which ends what it says, and so the reader of it
    return pictures


async def _pictures(page: Page, demo: Demo, began: float) -> list[Image.Image]:
    found: list[Image.Image] = []
    due, is_told = anyio.current_time(), False
    while not is_told:
        is_told = demo.is_over
        at = (anyio.current_time() - began) * SPEED
        await _turn_to(page, HERO if STORY[0] <= at < STORY[1] else "")
        await page.evaluate("act => { document.querySelector('#stage [role=status]').textContent = act; }", demo.act)
        found.append(Image.open(BytesIO(await page.screenshot())).convert("RGB"))
        due = max(due + EVERY / SPEED, anyio.current_time())
        await anyio.sleep_until(due)
    return found


async def _turn_to(page: Page, job: str) -> None:
    """To the page of a job, or to the overview."""
    if job and "/workloads/" not in page.url:
        await page.evaluate("document.querySelector('#nav a[href=\"/workloads\"]').click()")
        await page.locator(".row a", has_text=job).first.click()
        await page.get_by_role("heading", name="Timeline").wait_for()
        await anyio.sleep(0.5)
    elif not job and "/workloads" in page.url:
        await page.evaluate("document.querySelector('#nav a[href=\"/\"]').click()")


async def _lines(stream: TextReceiveStream) -> AsyncIterator[str]:
    rest = ""
    async for text in stream:
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line


def write(path: Path, pictures: list[Image.Image]) -> None:
    """Write them as an animation that begins again at its end."""
    lasts = [round(1000 * STEP)] * (len(pictures) - 1) + [round(1000 * LAST)]
    options = {"duration": lasts, "loop": 0, "quality": 82, "method": 5, "minimize_size": True}
    pictures[0].save(path, save_all=True, append_images=pictures[1:], **options)


if __name__ == "__main__":
    write(Path(sys.argv[1]), anyio.run(shot))
