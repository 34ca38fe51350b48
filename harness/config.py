"""One run's configuration: frozen, in two parts, and the ids that follow from it.

`identity` is all that can change a number the run records; `runtime` is how it is run (micro-batches, checkpoints,
workers) and never changes an id. A cell id is 16 hex digits of sha256 over the canonical JSON of the whole resolved
identity, never of a difference from defaults; a run id adds the seed. Leaves out: composition (`harness.sweep`).
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness import tricks
from harness.tricks import SLOTS, nearest

RESULT_VERSION = 1  # raised by hand when the core changes the meaning of a recorded number

Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class ConfigError(ValueError):
    """Every fault of a configuration at once, each as (dotted key, message)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{key}: {message}" if key else message for key, message in problems))
        self.problems = problems


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=(), strict=True)


class Model(_Frozen):
    """The policy that a run starts from. `role` and `path` name it; only `content` and `dtype` identify it."""

    role: str
    path: str
    content: str = ""
    dtype: Literal["float32", "bfloat16"] = "float32"


class ArithmeticData(_Frozen):
    """Generated chains of additions and subtractions (`harness.tasks.arithmetic`)."""

    task: Literal["arithmetic"] = "arithmetic"
    role: str = ""
    min_ops: Positive
    max_ops: Positive
    min_operand: Positive = 1
    max_operand: Positive = 5
    split: Literal["train", "heldout"] = "train"  # disjoint by a hash of the prompt
    size: Positive = 5000
    seed: Count = 0


class JsonlData(_Frozen):
    """Questions and answers in a JSON-lines file (`harness.tasks.jsonl`)."""

    task: Literal["jsonl"] = "jsonl"
    role: str = ""
    path: str
    content: str = ""
    question: str = "question"
    answer: str = "answer"
    answer_pattern: str = "(.*)"
    template: str = "{question}"
    size: Count = 0  # 0 = the whole file
    seed: Count = 0


Data = Annotated[ArithmeticData | JsonlData, Field(discriminator="task")]


class Sampling(_Frozen):
    engine: Literal["hf"] = "hf"
    prompts_per_step: Positive
    group_size: Positive
    max_new_tokens: Positive
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Count = 0  # 0 = all tokens


class Train(_Frozen):
    steps: Positive
    updates_per_rollout: Positive
    epochs: Positive = 1
    lr: Annotated[float, Field(gt=0)]
    warmup_steps: Count = 0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    adam_eps: Annotated[float, Field(gt=0)] = 1e-8
    max_grad_norm: Annotated[float, Field(gt=0)] | None = 1.0


class Evaluate(_Frozen):
    every: Positive
    samples: Positive
    temperature: Annotated[float, Field(gt=0)] = 1.0
    greedy: bool = True
    max_new_tokens: Positive
    benchmarks: dict[str, Data]


class Runtime(_Frozen):
    """How a run is carried out; never part of its identity."""

    micro_batch_rows: Positive | None = None  # rows per forward and backward pass; None = a whole update
    checkpoint_every: Positive = 10
    keep_checkpoints: Annotated[int, Field(ge=2)] = 2
    sample_rows: Count = 4  # decoded rollouts kept per evaluation step
    threads: Positive = 1
    workers: Count = 0  # 0 = one per core
    minutes_per_run: Annotated[float, Field(gt=0)] = 1.0  # the plan's estimate until a run of its kind is done


class Trick(BaseModel):
    """A slot's choice: the trick's name and every one of its knobs."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @property
    def knobs(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class Tricks(_Frozen):
    admit: Trick
    reward: Trick
    keep: Trick
    advantage: Trick
    weight: Trick
    surrogate: Trick
    penalty: Trick


class Identity(_Frozen):
    model: Model
    data: Data
    tricks: Tricks
    sampling: Sampling
    train: Train
    evaluate: Evaluate
    result_version: int = RESULT_VERSION

    @model_validator(mode="after")
    def _geometry(self) -> "Identity":
        updates, epochs = self.train.updates_per_rollout, self.train.epochs
        if updates % epochs:
            cure = f"is not a multiple of train.epochs = {epochs}; set train.epochs=1"
            raise ValueError(f"train.updates_per_rollout: {updates} {cure}")
        if updates // epochs > self.sampling.prompts_per_step:
            raise ValueError(
                f"train.updates_per_rollout: {updates // epochs} minibatches an epoch need at least as many prompts, "
                f"but sampling.prompts_per_step = {self.sampling.prompts_per_step}"
            )
        return self


class RunConfig(_Frozen):
    """What a run folder's config.yaml holds."""

    identity: Identity
    runtime: Runtime
    seed: Count

    @property
    def cell_id(self) -> str:
        return cell_id(self.identity)

    @property
    def run_id(self) -> str:
        return f"{self.cell_id}-s{self.seed}"


_NAMES = {"path", "role"}  # by what name it was asked for, never part of what it is
_LEFT_OUT: dict[type[BaseModel], Any] = dict.fromkeys((Model, ArithmeticData, JsonlData), _NAMES)
_LEFT_OUT[Evaluate] = {"benchmarks": {"__all__": _NAMES}}
_TEXTS: dict[int, tuple[BaseModel, str]] = {}  # canonical JSON of sections that many cells share, by object


def cell_id(identity: Identity) -> str:
    """16 hex digits of sha256 over canonical JSON of the identity, less the names by which it was asked for."""
    texts = {name: _canonical(getattr(identity, name)) for name in Identity.model_fields}
    text = ",".join(f'"{name}":{texts[name]}' for name in sorted(texts))
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()[:16]


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(section: Any) -> str:
    """Sorted keys, no spaces, no NaN. Kept per object: planning 10^5 cells meets the same sections again and again."""
    known = _TEXTS.get(id(section))
    if known and known[0] is section:
        return known[1]
    if not isinstance(section, BaseModel):
        return str(section)
    text = _ENCODER.encode(section.model_dump(exclude=_LEFT_OUT.get(type(section))))
    if len(_TEXTS) > 1000:
        _TEXTS.clear()
    _TEXTS[id(section)] = (section, text)
    return text


def build(tree: Mapping[str, Any]) -> tuple[Identity, Runtime]:
    """The two parts from one plain tree with the keys a user writes (`train.lr`, `tricks.surrogate.high`).

    A section or trick that is validated already is taken as it is. Raises ConfigError with every fault and the
    nearest known key.
    """
    problems: list[tuple[str, str]] = []
    chosen = _complete_tricks(tree.get("tricks", {}), problems)
    plain = {key: value for key, value in tree.items() if key not in ("runtime", "tricks")}
    identity = _validate(Identity, plain | {"tricks": chosen}, "", problems)
    runtime = _validate(Runtime, tree.get("runtime", {}), "runtime.", problems)
    if problems or identity is None or runtime is None:
        raise ConfigError(problems)
    return identity, runtime


def _complete_tricks(given: Any, problems: list[tuple[str, str]]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        problems.append(("tricks", f"takes a mapping of slots ({', '.join(SLOTS)}), not {given!r}"))
        return {}
    out: dict[str, Any] = {}
    for slot, choice in given.items():
        if isinstance(choice, Trick):  # complete already, shared by many cells
            out[slot] = choice
            continue
        knobs = {"name": choice} if isinstance(choice, str) else choice
        try:
            tricks.get(slot, "") if slot not in SLOTS else None
            if not isinstance(knobs, Mapping) or not isinstance(knobs.get("name"), str):
                raise tricks.TrickError(slot, f"takes a trick's name or a mapping with `name`, not {choice!r}")
            name = knobs["name"]
            out[slot] = {"name": name} | tricks.complete(slot, name, {k: v for k, v in knobs.items() if k != "name"})
        except tricks.TrickError as error:
            problems.append((f"tricks.{error.key}", str(error)))
            if slot in SLOTS:
                out[slot] = {"name": ""}
    return out


def _validate(model: type[BaseModel], value: Any, prefix: str, problems: list[tuple[str, str]]) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for item in error.errors():
            problems.append(_explain(item, prefix))
        return None


def _explain(item: Any, prefix: str) -> tuple[str, str]:
    tags = {"arithmetic", "jsonl"}
    key = prefix + ".".join(str(part) for part in item["loc"] if str(part) not in tags)
    if item["type"] == "extra_forbidden" and key in known_keys():
        kind = next((str(part) for part in item["loc"] if str(part) in tags), "such a")
        return key, f"does not apply to {kind} {key.split('.')[0]}; choose another `data` (data=gsm8k reads JSON lines)"
    if item["type"] == "extra_forbidden":
        return key, f"no such key{nearest(key, known_keys())}"
    if item["type"] == "missing":
        return key, "is missing"
    message = item["msg"].removeprefix("Value error, ")
    if key == prefix and ": " in message:
        key, message = message.split(": ", 1)
        return key, message
    given = item.get("input")
    shown = "" if isinstance(given, Mapping) else f", not {given!r}"
    return key, message[0].lower() + message[1:] + shown


def set_key(tree: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key of a plain tree in place. Raises ConfigError with the nearest known key.

    `tricks.<slot>` replaces the slot's whole choice; `tricks.<slot>.<knob>` sets one knob of it.
    """
    parts = key.split(".")
    node: Any = tree
    for depth, part in enumerate(parts[:-1]):
        child = node.get(part)
        if isinstance(child, str) and parts[0] == "tricks" and depth == 1:
            child = node[part] = {"name": child}
        if not isinstance(child, dict):
            raise ConfigError([(key, f"no such key{nearest(key, known_keys())}")])
        node = child
    knob = parts[0] == "tricks" and len(parts) == 3
    if not (knob or parts[-1] in node or key in known_keys()):
        raise ConfigError([(key, f"no such key{nearest(key, known_keys())}")])
    if knob:  # unknown slots and knobs are named here, with the nearest
        try:
            tricks.complete(parts[1], node.get("name", ""), {parts[2]: value})
        except tricks.TrickError as error:
            raise ConfigError([(key, str(error))]) from None
    node[parts[-1]] = value


SECTIONS: dict[str, tuple[type[BaseModel], ...]] = {
    "model": (Model,),
    "data": (ArithmeticData, JsonlData),
    "sampling": (Sampling,),
    "train": (Train,),
    "evaluate": (Evaluate,),
    "runtime": (Runtime,),
}


@functools.cache
def known_keys() -> tuple[str, ...]:
    """Every dotted key that a spec or the command line may set, for messages and the editor's schema."""
    found = [f"{name}.{field}" for name, models in SECTIONS.items() for m in models for field in m.model_fields]
    found += [f"tricks.{slot}" for slot in SLOTS]
    found += [f"tricks.{slot}.{knob}" for slot in SLOTS for t in tricks.registry()[slot].values() for knob in t.knobs]
    return tuple(dict.fromkeys(found))
