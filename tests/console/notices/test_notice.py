from __future__ import annotations

import json
from datetime import timedelta

from multikueue_console.history.story import news_of
from multikueue_console.notices.notice import Notice, NoticeKind, event_of, notice_of_wait
from tests.console.history.lives import at, running, submitted


def test_an_event_has_the_attributes_of_cloudevents_and_leaves_out_what_is_not_known() -> None:
    run = news_of(running().build()).run
    assert run is not None
    notice = Notice(id="one", kind=NoticeKind.MOVED, at=at(10), run=run, moved_from="west")
    assert json.loads(event_of(notice, "/clusters/hub")) == {
        "specversion": "1.0",
        "id": "one",
        "source": "/clusters/hub",
        "type": "dev.multikueue.workload.moved",
        "subject": "team/train",
        "time": "2026-01-01T12:10:00Z",
        "datacontenttype": "application/json",
        "data": {
            "namespace": "team",
            "workload": "train",
            "uid": "uid-train",
            "user": "team",
            "queue": "main",
            "clusterQueue": "cq",
            "cluster": "east",
            "movedFrom": "west",
            "queuedAt": "2026-01-01T12:00:00Z",
            "reservedAt": "2026-01-01T12:09:00Z",
            "startedAt": "2026-01-01T12:10:00Z",
        },
    }


def test_a_wait_is_told_at_the_moment_when_it_became_too_long() -> None:
    wait = news_of(submitted().build()).wait
    assert wait is not None
    told = notice_of_wait(wait, timedelta(hours=1))
    assert told is not None
    assert (told.at, told.id) == (at(60), "uid-train/waits/2026-01-01T13:00:00Z")
