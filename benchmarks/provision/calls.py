"""Counts what a playbook makes each host do, by play. Writes JSON to $PHONERACK_CALLS at the end.

A call is a task that ran on the host itself: what Ansible does on the controller (facts,
conditions, skipped tasks, tasks that are delegated) is counted apart as `local`.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: calls
type: aggregate
short_description: Calls of each host by play
description:
  - For the benchmark of provisioning.
"""

LOCAL = {
    *("add_host", "assert", "debug", "fail", "group_by", "include_tasks", "meta", "set_fact"),
    "validate_argument_spec",
}


class CallbackModule(CallbackBase):
    """Sees every result."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "calls"

    def __init__(self) -> None:
        super().__init__()
        self._plays: list[dict[str, Any]] = []

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._end_play()
        self._plays.append(
            {
                "play": play.get_name(),
                "began": time.time(),
                "calls": defaultdict(int),
                "local": 0,
                "changed": 0,
            }
        )

    def v2_runner_on_ok(self, result: Any) -> None:
        self._count(result)

    def v2_runner_on_failed(self, result: Any, **_: Any) -> None:
        self._count(result)

    def v2_runner_on_skipped(self, _: Any) -> None:
        self._plays[-1]["local"] += 1

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._end_play()
        for play in self._plays:
            play["seconds"] = play.pop("ended") - play.pop("began")
        failed = sorted({*stats.failures, *stats.dark})
        Path(os.environ["PHONERACK_CALLS"]).write_text(
            json.dumps({"plays": self._plays, "failed": failed})
        )

    def _count(self, result: Any) -> None:
        play, task = self._plays[-1], result.task
        if task.action.rpartition(".")[2] in LOCAL or task.delegate_to:
            play["local"] += 1
        else:
            play["calls"][result.host.get_name()] += 1
        play["changed"] += bool(result.result.get("changed"))

    def _end_play(self) -> None:
        if self._plays:
            self._plays[-1].setdefault("ended", time.time())
