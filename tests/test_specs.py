"""Every file under grid_specs/ and experiments/ loads and expands, at both scales; the editor's schema is current."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from analysis import figures
from harness import config
from harness.data import sources
from harness.sweep import contents, keys, schema, spec, yaml12
from harness.sweep.compose import compose, resolve
from harness.sweep.expand import expand
from harness.sweep.grid import Expansion

REPOSITORY = Path(__file__).resolve().parents[1]
SPECS = sorted(path for path in (REPOSITORY / "grid_specs").glob("*.yaml") if path != keys.CLAIMS)


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "model", lambda path: (path, f"content of {path}"))


def load(name: str, *overrides: str) -> Expansion:
    return expand(spec.read(REPOSITORY / "grid_specs" / f"{name}.yaml", overrides))


@pytest.mark.parametrize("scale", ["mini", "paper"])
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_expands_and_says_what_it_asks(path: Path, scale: str) -> None:
    expansion = expand(spec.read(path, (f"scale={scale}",)))
    assert expansion.cells or expansion.probes
    assert expansion.spec.question.endswith("?")
    assert expansion.spec.source
    for figure in expansion.spec.figures:
        figures.check(figure)
    if path.stem != "real_text":
        assert len(expansion.spec.seeds) >= 3
        assert expansion.spec.baseline
        without = ("recipes", "fractional", "fair_arms")  # claims compare one arm at a time, at one setting
        assert expansion.spec.claims or path.stem in without


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_fits_the_schema_that_editors_use(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"
    jsonschema.validate(yaml12.load(path).value, json.loads((path.parent / "schema.json").read_text()))


def test_the_schema_is_current() -> None:
    assert (REPOSITORY / "grid_specs/schema.json").read_text() == schema.text(), (
        "python -m harness schema > grid_specs/schema.json"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"axes": {"model": ["small_base"]}},
        {"question": "q", "axs": {}},
        {"question": "q", "axes": {"model": ["smal_base"]}},
        {"question": "q", "axes": {"a": {"key": "train.stps", "values": [1]}}},
        {"question": "q", "base": {"train.stps": 3}},
        {"question": "q", "seeds": 0},
        {"question": "q", "axes": {"model": []}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema.schema())


def test_the_grids_are_those_of_the_paper() -> None:
    clip = load("clip_higher")  # figures 7, 8, 11: base models at two ceilings, aligned ones at four
    assert len(clip.cells) == 2 * 2 + 2 * 4
    assert len(load("normalization").cells) == 2 * 2 * 6
    assert len(load("aggregation").cells) == 2 * 2 * 2
    assert len(load("overlong").cells) == 3 * 3
    assert len(load("lite_ppo").cells) == 2 * 2 * 3
    mini = load("paper_mini")  # 58 cells of one trick at a time, three included; five stand in two places
    assert (len(mini.cells), len(mini.aliases)) == (61, 5)
    limits = {cell.identity.sampling.max_new_tokens for cell in load("overlong", "scale=paper").cells}
    assert limits == {8000, 16000, 20000}


def test_the_paper_scale_is_the_papers() -> None:
    cell = load("clip_higher", "scale=paper").cells[0].identity
    sampling, train = cell.sampling, cell.train
    assert (sampling.prompts_per_step, sampling.group_size, sampling.max_new_tokens) == (128, 8, 8000)
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.99, 0.99, 100)
    assert (train.steps, train.lr, train.warmup_steps, train.weight_decay) == (500, 1e-6, 50, 0.0)
    assert set(cell.evaluate.benchmarks) == {
        "math500",
        "olympiadbench",
        "minerva_math",
        "amc23",
        "aime24",
        "aime25",
    }
    samples = {name: cell.evaluate.samples_of(name) for name in cell.evaluate.benchmarks}
    assert samples == dict.fromkeys(("math500", "olympiadbench", "minerva_math"), 4) | dict.fromkeys(
        ("amc23", "aime24", "aime25"), 32
    )
    assert {name: source.samples for name, source in sources.load(sources.FOLDER).items() if name in samples} == samples
    assert (cell.model.chat, cell.model.thinking) == (True, True)
    assert cell.model.system == r"Please reason step by step, and put your final answer within \boxed{}."
    assert cell.evaluate.benchmarks["aime24"].template == "{question}"  # type: ignore[union-attr]
    assert (sampling.engine, sampling.old_logp, sampling.logprob_support) == ("vllm", "recompute", "replay")


@pytest.mark.parametrize("scale", ["mini", "paper"])
@pytest.mark.parametrize("group", keys.groups())
def test_every_choice_of_every_group_composes(group: str, scale: str) -> None:
    defaults = keys.default_choices() | {"scale": scale}
    for choice in keys.choices(group, scale):
        if group == "scale" and choice != scale:
            continue
        tree = resolve(json.loads(json.dumps(compose(defaults | {group: choice})).replace("???", "missing")))
        identity, *_ = config.build(tree)
        assert identity.result_version == config.RESULT_VERSION  # stated nowhere but in the code


@pytest.mark.parametrize("scale", ["mini", "paper"])
def test_every_recipe_is_a_cell_of_its_own_and_keeps_to_its_method(scale: str) -> None:
    cells = load("recipes", f"scale={scale}").cells
    identities = {cell.labels["recipe"]: cell.identity for cell in cells}
    assert set(identities) == set(keys.choices("recipe", scale))
    assert len({cell.id for cell in cells}) == len(cells) == 12
    vanilla = identities["vanilla"]
    assert vanilla.train.steps == {"mini": 30, "paper": 500}[scale]
    for identity in identities.values():  # the scale's, so that recipes are compared at equal steps
        assert identity.train == vanilla.train
        assert identity.sampling == vanilla.sampling
    critic = identities["ppo"].critic
    assert critic and (critic.lr, critic.value_clip) == (vanilla.train.lr, None)
    assert [name for name, identity in identities.items() if identity.critic] == ["ppo"]


def test_real_text_needs_only_a_folder_and_a_file() -> None:
    expansion = load("real_text", "model.path=m", "data.path=q.jsonl")
    (cell,) = expansion.cells
    assert cell.identity.data.path == "q.jsonl"  # type: ignore[union-attr]
    benchmark = cell.identity.evaluate.benchmarks["gsm8k"]
    assert benchmark.path == "q.jsonl"  # type: ignore[union-attr]
    assert benchmark.template == "Question: {question}\nAnswer:"  # type: ignore[union-attr]
    assert expansion.missing_data == ("q.jsonl",)


def test_yaml_files_mean_the_same_under_1_1_and_1_2() -> None:
    """Hydra reads experiments/ by other rules than ours; no file may depend on which."""
    for path in sorted((REPOSITORY / "experiments").rglob("*.yaml")):
        assert yaml12.load(path).value == yaml.safe_load(path.read_text()), path
