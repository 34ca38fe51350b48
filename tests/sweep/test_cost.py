"""The plan's cost: by hand for one run of the paper's scale (docs/cost.md), and what each setting does to it."""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import store
from harness.config import ConfigError, Hardware
from harness.sweep import contents, cost, cost_memory, estimate, plan, shape, spec, work
from harness.sweep.cost_memory import GIB, Memory
from harness.sweep.expand import expand
from harness.sweep.grid import Cell
from harness.sweep.shape import Shape
from harness.sweep.work import Work

REPOSITORY = Path(__file__).resolve().parents[2]
QWEN_4B = Shape(36, 2560, 9728, 32, 8, 128, 151936, True)
QWEN_8B = Shape(36, 4096, 12288, 32, 8, 128, 151936, False)


@pytest.fixture(autouse=True)
def nothing_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever data somebody has made here: benchmarks have the rows of experiments/data/source."""
    there = contents.locate
    monkeypatch.setattr(contents, "locate", lambda path: None if path.startswith("data/") else there(path))
    work._written.cache_clear()


@functools.cache
def cells(name: str, *overrides: str) -> tuple[Cell, ...]:
    return expand(spec.read(REPOSITORY / "grid_specs" / f"{name}.yaml", ("scale=paper", *overrides))).cells


def work_of(name: str, *overrides: str, **labels: str) -> Work:
    """The work of the first cell with these labels."""
    cell = next(cell for cell in cells(name, *overrides) if labels.items() <= cell.labels.items())
    found = work.of_cells([cell])[cell.id]
    assert found
    return found


@pytest.fixture
def small() -> Work:
    return work_of("clip_higher", model="small_base")


def test_parameters_are_the_published_ones() -> None:
    assert QWEN_4B.parameters == 4_022_468_096  # Qwen/Qwen3-4B: safetensors' index says 4.02 B
    assert QWEN_8B.parameters == 8_190_735_360
    assert shape.of_model("Qwen/Qwen3-4B-Base") == shape.of_model("Qwen/Qwen3-4B") == QWEN_4B
    assert shape.of_model("Qwen/Qwen3-8B-Base") == shape.of_model("Qwen/Qwen3-8B") == QWEN_8B


def test_a_folder_is_read_itself(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 28, "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
    config |= {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = shape.of_model(str(tmp_path))
    assert found
    assert found.parameters == 596_049_920  # Qwen/Qwen3-0.6B
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text('{"num_hidden')
    assert shape.of_model(str(tmp_path / "torn")) is None


@pytest.mark.parametrize("config", [{}, {"num_experts": 8}, {"text_config": {}}])
def test_what_is_no_dense_decoder_has_no_shape(config: dict[str, object]) -> None:
    usual = {"num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}
    assert Shape.of(usual | {"vocab_size": 10}) == Shape(1, 8, 8, 2, 2, 4, 10, False)
    assert Shape.of((usual | {"vocab_size": 10} | config) if "num_experts" in config else config) is None


def test_a_downloaded_model_is_known_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "hub" / "models--org--dense" / "snapshots" / "0123"
    folder.mkdir(parents=True)
    config = {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2}
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 10}))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert shape.of_model("org/dense") == Shape(2, 8, 16, 2, 2, 4, 10, False)
    assert shape.of_model("org/other") is None


def test_a_run_is_what_the_page_works_out_by_hand(small: Work) -> None:
    page = (REPOSITORY / "docs/cost.md").read_text()
    by_hand: dict[str, float] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.S)[0], by_hand)
    time, memory = cost.seconds(small), cost_memory.memory(small)
    for phase in ("generate", "update", "score", "evaluate", "other"):
        assert getattr(time, phase) == pytest.approx(by_hand[phase]), phase
    assert time.total / 3600 == pytest.approx(by_hand["hours"])
    assert sum(memory.resident.values()) == pytest.approx(by_hand["resident"])
    assert memory.update == pytest.approx(
        {name: by_hand[name] for name in ("gathered", "activations", "logits")} | {"float32 head": 0}
    )
    assert memory.generate == pytest.approx({"engine": by_hand["engine"]})
    assert memory.responses == pytest.approx(by_hand["longest_responses"])
    assert memory.peak == pytest.approx(by_hand["peak"])
    assert cost.disk(small).total == pytest.approx(by_hand["disk"])


def test_the_numbers_of_the_page_are_these(small: Work) -> None:
    """Worked out with a calculator, once; the page says them in its text."""
    time, memory = cost.seconds(small), cost_memory.memory(small)
    assert tuple(vars(time).values()) == pytest.approx((68_650, 26_542, 6_636, 31_333, 5_300), abs=1)
    assert time.total / 3600 == pytest.approx(38.46, abs=0.01)
    assert memory.peak / GIB == pytest.approx(49.3, abs=0.05)
    assert int(memory.responses) == 22
    assert memory.fits
    disk = cost.disk(small)
    assert (disk.checkpoint, disk.kept, disk.records) == (48_269_617_152, 2, 160_888_000)


def test_the_larger_model_costs_what_its_parameters_say(small: Work) -> None:
    large = work_of("clip_higher", model="large_base")
    assert large == replace(small, shape=QWEN_8B)
    assert cost.seconds(large).generate / cost.seconds(small).generate == pytest.approx(8_190_735_360 / 4_022_468_096)
    assert cost_memory.memory(large).resident["Adam"] == 8_190_735_360  # eight bytes over eight GPUs
    assert cost_memory.memory(large).fits


def changed(small: Work, **changes: object) -> dict[str, float]:
    """Phases of a run and what they become, as ratios; only those that change."""
    before, after = cost.seconds(small), cost.seconds(replace(small, **changes))  # type: ignore[arg-type]
    ratios = {name: getattr(after, name) / getattr(before, name) for name in vars(before)}
    return {name: round(ratio, 9) for name, ratio in ratios.items() if abs(ratio - 1) > 1e-9}


def test_each_setting_changes_the_time_of_its_phases_alone(small: Work) -> None:
    assert changed(small, gpus=4) == {"generate": 2, "update": 2, "score": 2, "evaluate": 2}
    assert changed(small, checkpointing=False) == {"update": 0.75}
    assert changed(small, epochs=2) == {"update": 2}
    assert changed(small, scored=False) == {"score": 0}
    assert changed(small, reference=True) == {"score": 2}
    assert changed(small, critic=True) == {"update": 2, "score": 2}
    assert changed(small, refilled=True) == {"generate": 2, "score": 2}
    assert changed(small, lora_rank=32) == {"update": 0.75}
    assert changed(small, engine="hf") == {"generate": 10, "evaluate": 10}
    assert changed(small, hardware=Hardware(mfu=0.6)) == {"update": 0.5, "score": 0.5}
    assert changed(small, evaluations=13) == {"evaluate": 0.5}


def test_a_run_is_asked_for_what_its_tricks_need() -> None:
    by_recipe = {cell.labels["recipe"]: work.of_cells([cell])[cell.id] for cell in cells("recipes")}
    works = {name: found for name, found in by_recipe.items() if found}
    assert len(works) == len(by_recipe)
    assert {name for name, found in works.items() if found.critic} == {"ppo"}
    assert {name for name, found in works.items() if found.refilled} == {"dapo", "cispo"}
    assert {name for name, found in works.items() if found.reference} == {"reinforce_pp", "reinforce_pp_baseline"}
    assert not work_of("recipes", "recipe=[vanilla,dapo]", "sampling.max_rounds=1", recipe="dapo").refilled


def test_evaluations_are_counted_as_they_are_made(small: Work) -> None:
    def one(*overrides: str) -> Work:
        return work_of("clip_higher", "model=[small_base]", *overrides)

    assert small.evaluations == 26  # at 0, 20, ... 500
    assert one("train.steps=10", "evaluate.every=4").evaluations == 4  # at 0, 4, 8 and 10
    assert small.evaluated == 4 * (500 + 675 + 272) + 32 * (40 + 30 + 30)
    assert one("evaluate.greedy=true").evaluated == 8988 + 1547


def test_a_benchmark_counts_its_lines_where_its_file_is_here(tmp_path: Path) -> None:
    (tmp_path / "sums.jsonl").write_text('{"q": 1}\n{"q": 2}\n\n{"q": 3}')
    assert work._written(str(tmp_path / "sums.jsonl")) == 3
    assert work._written("data/paper/olympiadbench.jsonl") == 675
    assert work._written("data/paper/something.jsonl") == work.QUESTIONS


def test_activations_are_less_with_checkpointing_and_with_smaller_batches(small: Work) -> None:
    token = 167_936  # of a layer, docs/cost.md
    whole = replace(small, checkpointing=False, micro_tokens=9000)
    assert cost_memory.activations(whole) == 36 * token * 9000
    assert cost_memory.activations(replace(small, micro_tokens=9000)) == (36 * 2 * 2560 + 2 * token) * 9000
    assert cost_memory.tokens_at_once(small) == 16384
    assert cost_memory.tokens_at_once(replace(small, micro_tokens=100)) == 9000  # a row is never cut
    assert cost_memory.tokens_at_once(replace(small, micro_tokens=None)) == 16 * 9000  # a GPU's share of an update
    assert cost_memory.tokens_at_once(replace(small, micro_tokens=None, micro_rows=4)) == 4 * 9000
    assert cost_memory.tokens_at_once(replace(small, gpus=1, updates=1, epochs=1, micro_tokens=None)) == 1024 * 9000


def memory(small: Work, **changes: object) -> Memory:
    return cost_memory.memory(replace(small, **changes))  # type: ignore[arg-type]


def test_each_setting_changes_the_memory_of_its_parts_alone(small: Work) -> None:
    number = QWEN_4B.parameters
    alone = memory(small, gpus=1)
    assert sum(alone.resident.values()) == 18 * number  # 4 + 4 + 8, and 2 of the bfloat16 copy
    assert alone.update["gathered"] == 0
    assert sum(memory(small, gpus=1, float32=True).resident.values()) == 16 * number
    assert memory(small, reference=True).resident["frozen weights"] == 4 * number / 8
    assert memory(small, critic=True).resident["Adam"] == pytest.approx(2 * number, rel=1e-5)  # 8 bytes, 8 GPUs, two
    lora = memory(small, lora_rank=32)
    ranks = 36 * 32 * (4 * 2560 + 2 * 40 * 128 + 3 * (2560 + 9728))  # in + out of seven linear maps a layer
    assert lora.resident["Adam"] == 8 * ranks / 8
    assert lora.resident["frozen weights"] == 4 * number / 8
    assert memory(small, chunk=256).update["logits"] == memory(small).update["logits"] / 4
    assert memory(small, float32_head=True).update["float32 head"] == 4 * 151936 * 2560
    assert memory(small, engine_memory=0.9).generate["engine"] == 2 * memory(small).generate["engine"]
    own = memory(small, engine="hf").generate["engine"]  # a whole copy, and 128 of 9000 tokens
    assert own == 2 * number + 128 * 9000 * 147_456
    assert memory(small, hardware=Hardware(reserved_gib=0)).peak == memory(small).peak - 6 * GIB


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"gpus": 1},
            "does not fit: M on 1 x H100 80 GB needs 109 GiB of 80, 36 of them engine; set runtime.gpus=2, or "
            "model.lora_rank=32",
        ),
        (
            {"checkpointing": False, "micro_tokens": None},
            "does not fit: M on 8 x H100 80 GB needs 831 GiB of 80, 811 of them activations; set "
            "runtime.micro_batch_tokens=9000",
        ),
        (
            {"shape": QWEN_8B, "checkpointing": False, "micro_tokens": None},
            "does not fit: M on 8 x H100 80 GB needs 1034 GiB of 80, 999 of them activations; set "
            "runtime.gradient_checkpointing=true and runtime.micro_batch_tokens=9000",
        ),
        (
            {"engine_memory": 0.1},
            "does not fit: M on 8 x H100 80 GB leaves the engine room for 0.0 of a longest response; set "
            "runtime.engine_memory=0.7",
        ),
    ],
)
def test_what_does_not_fit_says_why_and_what_would_help(small: Work, changes: dict[str, object], told: str) -> None:
    assert estimate.misfit(replace(small, **changes), ["M"]) == told  # type: ignore[arg-type]


def test_the_named_settings_make_it_fit_and_the_unnamed_do_not(small: Work) -> None:
    large = replace(small, shape=QWEN_8B, gpus=2)
    assert not cost_memory.memory(large).fits
    assert cost_memory.cure(large) == "set runtime.gpus=4, or model.lora_rank=32"
    assert memory(large, gpus=4).fits
    assert memory(large, lora_rank=32).fits
    for changes in ({"engine_memory": 0.2}, {"chunk": 256}, {"micro_tokens": 9000}):
        assert not memory(large, **changes).fits
    greedy = replace(small, gpus=2, engine_memory=0.9)
    assert cost_memory.cure(greedy) == "set runtime.engine_memory=0.5"
    assert memory(greedy, engine_memory=0.5).fits
    assert not memory(greedy, engine_memory=0.6).fits
    huge = replace(small, shape=replace(QWEN_8B, width=16384, units=65536))
    assert cost_memory.cure(huge).startswith("no setting of one run makes it fit; ")


def test_cells_that_differ_in_no_cost_share_one_object(write: Callable[..., Path]) -> None:
    rates = ", ".join(f"{i}e-7" for i in range(1, 101))
    path = write(f"question: q?\naxes: {{train.lr: [{rates}], train.steps: [3, 5]}}\n")
    found = work.of_cells(expand(spec.read(path, ("scale=paper",))).cells)
    assert len(found) == 200
    assert len({id(one) for one in found.values()}) == 2


def test_runs_without_a_gpu_or_of_an_unknown_model_are_not_computed(write: Callable[..., Path], tmp_path: Path) -> None:
    text = "question: q?\nbase: {model: hub_folder, model.path: org/unheard-of, runtime.gpus: 1, data: hard}\n"
    text += "axes: {train.lr: [1e-6, 2e-6]}\n"
    made = plan.of(spec.read(write(text), ("scale=paper",)), tmp_path)
    guess = estimate.of(made, 2)
    assert dict(guess.sources) == {"unknown": 2}
    assert not guess.kinds
    assert guess.gpu_hours == 0
    estimate.refuse_what_cannot_fit(made)  # nobody knows that it cannot
    made = plan.of(spec.read(write(text.replace("gpus: 1", "gpus: 0")), ("scale=paper",)), tmp_path)
    assert dict(estimate.of(made, 2).sources) == {"unknown": 2}


def test_minutes_that_somebody_states_and_runs_that_are_done_go_before_the_model(tmp_path: Path) -> None:
    path = REPOSITORY / "grid_specs" / "clip_higher.yaml"

    def made(*overrides: str) -> plan.Plan:
        words = ("scale=paper", "model=[small_base]", "eps_high=[0.20,0.28]", *overrides)
        return plan.of(spec.read(path, words), tmp_path)

    guess = estimate.of(made(), 2)
    assert dict(guess.sources) == {"computed": 6}
    assert guess.gpu_hours == pytest.approx(6 * 8 * 38.46, rel=1e-3)
    assert guess.wall_hours == pytest.approx(3 * 38.46, rel=1e-3)
    assert estimate.of(made(), 60).wall_hours == pytest.approx(38.46, rel=1e-3)  # a run is not cut in parts
    assert guess.disk == pytest.approx(6 * 96.7e9, rel=1e-3)
    guess = estimate.of(made("runtime.minutes_per_run=600"), 2)
    assert dict(guess.sources) == {"stated": 6}
    assert guess.gpu_hours == pytest.approx(6 * 8 * 10)

    run = store.create_run(tmp_path, next(iter(made().expansion.runs())).config)
    (run.path / "timing").mkdir()
    run.attempt_file("timing", 0).write_text('{"step": 0, "time": 0.0, "seconds": {"update": 7200.0}}\n')
    run.write_status("done")
    guess = estimate.of(made("runtime.minutes_per_run=600"), 2)
    assert dict(guess.sources) == {"measured": 5}
    assert guess.gpu_hours == pytest.approx(5 * 8 * 2)


def test_the_hardware_is_chosen_by_name_and_by_key_and_is_part_of_no_run() -> None:
    plain = [cell for cell in cells("clip_higher") if cell.labels["model"] == "small_base"]
    older = cells("clip_higher", "model=[small_base]", "hardware=a100", "hardware.mfu=0.5", "launcher=slurm")
    assert [cell.id for cell in plain] == [cell.id for cell in older]
    assert plain[0].hardware == Hardware()  # experiments/hardware/h100.yaml and the defaults say the same
    assert older[0].hardware == Hardware(
        gpu="A100 80 GB", memory_gib=79.2, tflops=312.0, tflops_float32=19.5, tokens_per_second=7300.0, mfu=0.5
    )
    name = plan.sweep_name(spec.read(REPOSITORY / "grid_specs/clip_higher.yaml", ("scale=paper", "hardware=a100")))
    assert name == "clip_higher-paper"
    with pytest.raises((ConfigError, ValueError), match="no hardware 'h10'; did you mean 'h100'"):
        cells("clip_higher", "hardware=h10")
    with pytest.raises((ConfigError, ValueError), match=r"did you mean 'hardware.mfu'"):
        cells("clip_higher", "hardware.mfa=0.5")
