"""What the plan's cost is computed from: one GPU, and how well a run is taken to use it. Part of no run.

docs/cost.md says where each number comes from. Leaves out: the computation (`harness/sweep/cost.py`).
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Amount = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(gt=0, le=1)]


class Hardware(BaseModel):
    """A choice of experiments/hardware/ names a GPU's own numbers; the assumptions below them are the same for all."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    gpu: str = "H100 80 GB"
    memory_gib: _Amount = 79.6  # of one GPU, as its driver reports it
    tflops: _Amount = 989.0  # dense bfloat16, 10^12 operations a second
    tflops_float32: _Amount = 67.0
    tokens_per_second: _Amount = 12000.0  # by engine=vllm, one GPU, 10^9 parameters; N·10^9 parameters make 1/N of it
    hf_speed: _Share = 0.1  # of engine=hf, as a share of that
    mfu: _Share = 0.3  # share of tflops that passes over training tokens reach
    prompt_tokens: Annotated[int, Field(gt=0)] = 200  # of a question with its template, on average
    longest_prompt: Annotated[int, Field(gt=0)] = 1000
    response_share: _Share = 0.4  # mean length of a response / max_new_tokens
    refill: Annotated[float, Field(ge=1)] = 2.0  # samples generated per sample trained on, where `admit` refuses some
    step_seconds: Annotated[float, Field(ge=0)] = 10.0  # of each step beside: weights to the engine, grading, files
    start_minutes: Annotated[float, Field(ge=0)] = 5.0  # of a run: weights from disk, the engine's start
    reserved_gib: Annotated[float, Field(ge=0)] = 6.0  # of a GPU: CUDA context, NCCL's buffers, fragmentation
