"""GradientMonitor on one of two ranks: reduced gradients under DDP, this rank's shards under FSDP, and nobody waits."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.runtime.forked import children_forked
from tests.runtime.zygote import python

pytestmark = pytest.mark.slow

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"]


@pytest.fixture(scope="module")
def ranks() -> dict[str, Any]:
    command = python("-m", "tests.runtime.monitored_ranks")
    with children_forked():
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("part", ["ddp", "fsdp2", "fsdp1"])
def test_all_steps_are_seen(ranks: dict[str, Any], part: str) -> None:
    assert [sample[0] for sample in ranks[part]["samples"]] == [1, 2, 4, 6]
    assert all(clipped for _, _, _, clipped, _, _ in ranks[part]["samples"])
    assert ranks[part]["findings"] == []
    assert set(ranks[part]["names"]) <= set(NAMES)


def test_ddp_gradients_are_reduced(ranks: dict[str, Any]) -> None:
    seen = ranks["ddp"]
    assert [sample[1] for sample in seen["samples"]] == pytest.approx(
        [seen["norms"][i] for i in (0, 1, 3, 5)], rel=1e-4
    )
    assert seen["names"] == NAMES
    assert seen["notes"] == []


@pytest.mark.parametrize("part", ["fsdp2", "fsdp1"])
def test_shards_are_called_shards(ranks: dict[str, Any], part: str) -> None:
    seen = ranks[part]
    for step, norm, used, _, shard, label in seen["samples"]:
        assert shard
        assert label.endswith("local shard")
        assert 0 < norm < seen["norms"][step - 1]
        # What the clip did to the whole, it did to the shard.
        assert used / norm == pytest.approx(0.01 / seen["norms"][step - 1], rel=1e-3)
    assert len(seen["notes"]) == 1


def test_the_clip_of_fsdp1_tells_the_norm_of_the_whole(ranks: dict[str, Any]) -> None:
    ((function, calls, active, high),) = ranks["fsdp1"]["clips"]
    assert (function, calls, active) == ("model.clip_grad_norm_", 6, 6)
    assert min(ranks["fsdp1"]["norms"]) < high <= max(ranks["fsdp1"]["norms"]) * (1 + 1e-6)


def test_the_clip_of_fsdp2_is_judged_by_what_it_did(ranks: dict[str, Any]) -> None:
    # Its norm is spread over the ranks: to ask for it would hang a rank that watches alone.
    assert ranks["fsdp2"]["clips"] == [["clip_grad_norm_", 4, 4, None]]
