"""Ids: pinned, and moved by nothing but what changes a number."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness import config
from harness.sweep import contents
from harness.sweep.compose import ready

TREE: dict[str, Any] = {
    "model": {"role": "tiny", "path": "somewhere", "content": "abc"},
    "data": {"task": "jsonl", "role": "easy", "path": "a.jsonl", "content": "def"},
    "tricks": {
        "admit": "everything",
        "reward": "raw",
        "keep": "everything",
        "advantage": "group_z",
        "weight": "token_mean",
        "surrogate": {"name": "clip", "high": 0.28},
        "penalty": "none",
    },
    "sampling": {"prompts_per_step": 4, "group_size": 2, "max_new_tokens": 16},
    "train": {"steps": 3, "updates_per_rollout": 2, "lr": 1e-3},
    "evaluate": {
        "every": 3,
        "samples": 1,
        "max_new_tokens": 16,
        "benchmarks": {"b": {"task": "jsonl", "path": "b.jsonl", "content": "ghi", "size": 8}},
    },
    "runtime": {"threads": 1},
}


def cell(**changes: Any) -> str:
    tree = json.loads(json.dumps(TREE))
    for key, value in changes.items():
        config.set_key(tree, key.replace("__", "."), value)
    return config.cell_id(config.build(tree)[0])


def test_golden_id() -> None:
    """Changes only with RESULT_VERSION or a new field of the identity; say so in the changelog."""
    assert cell() == "6727255f2bf59b96"


def test_the_id_is_the_hash_of_the_whole_identity() -> None:
    identity, *_ = config.build(TREE)
    plain = identity.model_dump()
    for named in (plain["model"], plain["data"], *plain["evaluate"]["benchmarks"].values()):
        del named["role"]
        named.pop("path", None)
    del plain["data"]["samples"]  # of each question of a benchmark: a training set is sampled otherwise
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert cell() == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_what_does_not_move_an_id() -> None:
    reordered = dict(reversed([(k, dict(reversed(v.items()))) for k, v in TREE.items()]))
    assert config.cell_id(config.build(reordered)[0]) == cell()
    assert cell(model__path="elsewhere", model__role="other", data__role="x") == cell()
    assert cell(runtime__threads=4, runtime__micro_batch_rows=2) == cell()
    assert cell(tricks__surrogate={"high": 0.28, "low": 0.2, "name": "clip"}) == cell()
    assert cell(train__beta2=0.999) == cell()  # a default that is spelled out
    assert cell(train__lr=1) == cell(train__lr=1.0)  # coerced before hashing
    assert cell(tricks__surrogate__high=1) == cell(tricks__surrogate__high=1.0)


def test_what_moves_it() -> None:
    changed = [
        cell(model__content="abd"),
        cell(model__dtype="bfloat16"),
        cell(data__seed=1),
        cell(tricks__surrogate__high=0.2),
        cell(tricks__advantage="group_mean"),
        cell(sampling__top_k=5),
        cell(train__steps=4),
        cell(evaluate__samples=2),
    ]
    assert len({cell(), *changed}) == 9


def test_ready_sections_give_the_same_identity() -> None:
    assert config.build(ready(TREE)) == config.build(TREE)


def test_booleans_and_texts_are_not_numbers() -> None:
    for key, value in {"train__steps": True, "train__lr": "1e-3", "evaluate__greedy": "off"}.items():
        with pytest.raises(config.ConfigError):
            cell(**{key: value})


def test_equal_content_is_the_same_run_whatever_the_path(tmp_path: Path) -> None:
    for name, weights in (("a", b"w"), ("b", b"w"), ("c", b"x")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "README.md").write_text(name)
    a, b, c = (contents.model(str(tmp_path / name))[1] for name in "abc")
    assert a == b != c
    data = tmp_path / "d.jsonl"
    data.write_text("{}\n")
    assert contents.data(str(data)) == (str(data), hashlib.sha256(b"{}\n").hexdigest())


def test_a_hub_name_is_its_own_content_but_a_missing_folder_is_an_error() -> None:
    assert contents.model("Qwen/Qwen3-4B-Base") == ("Qwen/Qwen3-4B-Base", "hub:Qwen/Qwen3-4B-Base")
    for missing in ("harness/nothing_here", "/nowhere/at_all", "nothing"):
        with pytest.raises(config.ConfigError, match=r"no such model folder.*lab build"):
            contents.model(missing)
