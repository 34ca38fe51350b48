"""One run's configuration: frozen, in two parts, and the ids that follow from it.

`identity` is all that can change a number the run records; `runtime` is how it is run (micro-batches, checkpoints,
GPUs) and never changes an id. `Launcher` says where a whole sweep's workers run and is no part of a run. A cell id
is 16 hex digits of sha256 over the canonical JSON of the whole resolved identity, never of a difference from
defaults; a run id adds the seed. Leaves out: how a tree of keys becomes one (`build.py`).
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness import tricks

RESULT_VERSION = 3  # raised by hand when the core changes the meaning of a recorded number

Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=(), strict=True)


class Model(_Frozen):
    """The policy that a run starts from. `role` and `path` name it; the rest identifies it."""

    role: str
    path: str
    content: str = ""
    dtype: Literal["float32", "bfloat16"] = "float32"
    head_dtype: Literal["model", "float32"] = "model"  # in which the last linear map is computed
    lora_rank: Count = 0  # of adapters on every linear map, which alone are trained then; 0 = none
    lora_alpha: Annotated[float, Field(gt=0)] = 32.0
    chat: bool = False  # a prompt becomes the user's turn of the tokenizer's chat template
    system: str = ""  # the system's turn before it; empty = none
    thinking: bool = False  # what the chat template is told as `enable_thinking`


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
    samples: Count = 0  # of each question, where it is a benchmark; 0 = evaluate.samples


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
    samples: Count = 0  # of each question, where it is a benchmark; 0 = evaluate.samples
    grading: Literal[2] = 2  # raised by hand when another answer counts as right (`harness.tasks.grading`)


Data = Annotated[ArithmeticData | JsonlData, Field(discriminator="task")]


class Sampling(_Frozen):
    engine: Literal["hf", "vllm"] = "hf"
    prompts_per_step: Positive
    group_size: Positive
    max_new_tokens: Positive
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Count = 0  # 0 = all tokens
    logprob_support: Literal["full", "replay"] = "full"  # of training log-probabilities under top-p or top-k
    old_logp: Literal["engine", "recompute", "detach"] = "engine"  # what ratios are taken against
    max_rounds: Positive = 10  # of generation in a step, to refill what `admit` refuses; 1 = the batch shrinks
    short_batch: Literal["train", "error"] = "train"  # when the rounds are used up and prompts are still missing


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


class Critic(_Frozen):
    """A value model beside the policy, started from the same weights, for an advantage that names `values`."""

    lr: Annotated[float, Field(gt=0)]
    value_clip: Annotated[float, Field(gt=0)] | None = 0.2  # how far a prediction may move from the rollout's


# Of an evaluation; the plan computes disk and memory with them.
ROWS_AT_ONCE = {"hf": 512, "vllm": 4096}  # of a generation call: bounds the cache of one, the tensors of the other
KEPT_SAMPLES, KEPT_CHARACTERS = 4, 1000  # of each question, from the end of each response: the answer stands there


class Evaluate(_Frozen):
    every: Positive
    samples: Positive  # of each question, of benchmarks that do not say otherwise
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Count = 0  # 0 = all tokens
    pass_at: list[Positive] = []  # the k of pass@k to record, of benchmarks with as many samples
    greedy: bool = True
    max_new_tokens: Positive
    benchmarks: dict[str, Data]

    def samples_of(self, benchmark: str) -> int:
        """How often each of its questions is sampled: the k of its avg@k."""
        return self.benchmarks[benchmark].samples or self.samples

    @model_validator(mode="after")
    def _enough_samples(self) -> "Evaluate":
        most = max((self.samples_of(name) for name in self.benchmarks), default=self.samples)
        if beyond := [k for k in self.pass_at if k > most]:
            cure = f"no benchmark has more than {most}; set evaluate.samples={max(beyond)}, or evaluate.pass_at=[]"
            raise ValueError(f"evaluate.pass_at: pass@{beyond[0]} needs as many samples of a question, and {cure}")
        return self


class Runtime(_Frozen):
    """How a run is carried out; never part of its identity."""

    micro_batch_rows: Positive | None = None  # rows per forward and backward pass; None = a whole update
    micro_batch_tokens: Positive | None = None  # of prompts and responses in a pass, padding included
    logprob_chunk: Positive = 1024  # response tokens whose logits over the vocabulary exist at one time
    gradient_checkpointing: bool = False
    engine_memory: Annotated[float, Field(gt=0, lt=1)] = 0.45  # share of a GPU that the engine vllm may take
    engine_cpu_mb: Positive = 256  # its key-value cache where there is no GPU
    probe_tolerance: Annotated[float, Field(gt=0)] | None = None  # engine against trainer, in nats; None = by dtype
    checkpoint_every: Positive = 10
    keep_checkpoints: Annotated[int, Field(ge=2)] = 2
    sample_rows: Count = 4  # decoded rollouts kept per evaluation step
    threads: Positive = 1  # of one process
    gpus: Count = 0  # of one run; more than one is that many ranks under torchrun
    cpus: Count = 0  # of one run, asked of Slurm; 0 = threads of every rank
    mem_gb: Annotated[float, Field(gt=0)] | None = None  # of one run, asked of Slurm; None = the site's default
    minutes_per_run: Annotated[float, Field(gt=0)] | None = None  # until a run of its kind is done; None = computed


# What a batch script may hold on one line: no quote, space, line end or command substitution.
_Word = Annotated[str, Field(pattern=r"^[\w.,:@%/+*&|()\[\]=-]+$")]


class Launcher(_Frozen):
    """Where the workers of a sweep run: processes on this machine, or the tasks of Slurm arrays."""

    kind: Literal["local", "slurm"] = "local"
    workers: Count = 0  # processes: on this machine 0 = one per core or GPU; in a Slurm task without GPUs 0 = one
    workers_per_gpu: Positive = 1  # small runs that share one
    max_concurrent: Positive = 8  # tasks at a time
    runs_per_task: Count = 0  # after which a task leaves; 0 = when nothing is left
    continues: bool = True  # a small job submits the next round when one has ended; false = the user does
    minutes: Positive = 240  # time limit of a task; a longer run goes on in the next
    warning: Positive = 120  # seconds before the limit at which a task is told to save: longer than a step
    partition: _Word | None = None
    account: _Word | None = None
    qos: _Word | None = None
    constraint: _Word | None = None
    extra: list[_Word] = []  # further options of sbatch, such as nice=100
    setup: list[str] = []  # shell lines before the worker, such as module load cuda


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
    critic: Critic | None = None
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
        if (self.model.system or self.model.thinking) and not self.model.chat:
            key, off = ("system", '""') if self.model.system else ("thinking", "false")
            cure = f"set model.chat=true, or model.{key}={off}"
            raise ValueError(f"model.{key}: is for a chat template, which is off; {cure}")
        if self.sampling.old_logp == "detach" and updates > 1:
            cure = "after the first they differ from what was sampled; set sampling.old_logp=recompute"
            raise ValueError(f"sampling.old_logp: detach makes every ratio 1 in all {updates} updates, but {cure}")
        keep = tricks.registry()["keep"].get(self.tricks.keep.name)
        if keep and "gap" in keep.inputs and self.sampling.old_logp != "recompute":
            cure = "set sampling.old_logp=recompute"
            raise ValueError(f"tricks.keep: '{keep.name}' compares the engine with the trainer's own word; {cure}")
        name = self.tricks.advantage.name
        known = tricks.registry()["advantage"].get(name)  # an unknown name is reported by the build
        reads_values = known is not None and "values" in known.inputs
        if reads_values and not self.critic:
            raise ValueError(f"tricks.advantage: '{name}' needs a critic; set critic.lr, or choose recipe=ppo")
        if self.critic and known and not reads_values:
            cure = "take a recipe without a critic, or choose gae"
            raise ValueError(f"critic: tricks.advantage = {name} reads no values; {cure}")
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


NAMES = {"path", "role"}  # by what name it was asked for, never part of what it is
_LEFT_OUT: dict[type[BaseModel], Any] = {Model: NAMES}
_LEFT_OUT |= dict.fromkeys((ArithmeticData, JsonlData), NAMES | {"samples"})  # a training set is sampled otherwise
_LEFT_OUT[Evaluate] = {"benchmarks": {"__all__": NAMES}}
_FLAT = (Sampling, Train, Critic)  # numbers and words only: nothing to leave out, nothing below
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
    if not isinstance(section, BaseModel):  # a number, or a section that is left out
        return "null" if section is None else str(section)
    plain = vars(section) if isinstance(section, _FLAT) else section.model_dump(exclude=_LEFT_OUT.get(type(section)))
    text = _ENCODER.encode(plain)
    if len(_TEXTS) > 1000:
        _TEXTS.clear()
    _TEXTS[id(section)] = (section, text)
    return text
