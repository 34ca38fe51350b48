"""Starting vLLM in this process, once for all runs of a worker whose model has the same architecture.

The engine starts with random weights: they always come from a policy (`vllm.py`). Start-up costs seconds on a CPU and
up to minutes on a GPU, so a worker keeps the engine, asleep on a GPU, and the next run only brings its weights. Leaves
out: engines that span several GPUs; each rank has one of its own.
"""

import contextlib
import gc
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from harness.config import RunConfig
from harness.core import parallel
from harness.core.policy import Policy, find_folder

PROMPT_ROOM = 4096  # tokens of the longest prompt, where the model's own limit is not lower
CPU_BATCH = 4096  # tokens that are scored at a time on a CPU
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # live tensors are handed over, and a rank has one process
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all workers of a machine bind to the same core
}

_held: tuple[str, Any] | None = None  # what the engine was started for, and the engine


def engine(config: RunConfig, policy: Policy) -> Any:
    """A running `vllm.LLM` of the policy's architecture: the worker's own if it fits, else a new one in its place.

    Raises ImportError where vLLM is not installed, RuntimeError when it does not start; both name the cure.
    """
    global _held
    limit = longest(config, policy)
    key = json.dumps([_architecture(policy), _settings(config, limit, policy.device.type)], sort_keys=True, default=str)
    if _held and _held[0] == key:
        return _held[1]
    forget()
    where = find_folder(config.identity.model.path) or config.identity.model.path
    started = _start(str(where), _settings(config, limit, policy.device.type))
    _held = (key, started)
    return started


def forget() -> None:
    """Ends the engine of this process; after an error in it nothing in it can be trusted."""
    global _held
    if not _held:
        return
    with contextlib.suppress(Exception):  # it may be what broke
        _held[1].llm_engine.engine_core.shutdown()
    _held = None
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def longest(config: RunConfig, policy: Policy) -> int:
    """Tokens that prompt and response may have together."""
    identity = config.identity
    response = max(identity.sampling.max_new_tokens, identity.evaluate.max_new_tokens)
    own = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None)
    return min(own or PROMPT_ROOM + response, PROMPT_ROOM + response)


def _architecture(policy: Policy) -> dict[str, Any]:
    """The model's configuration, less what two folders of one architecture may differ in."""
    names = ("_name_or_path", "transformers_version", "eos_token_id", "pad_token_id", "bos_token_id")
    return {key: value for key, value in policy.model.config.to_dict().items() if key not in names}


def _settings(config: RunConfig, limit: int, device: str) -> dict[str, Any]:
    """Arguments of `vllm.LLM` but the model's folder."""
    model, runtime = config.identity.model, config.runtime
    settings: dict[str, Any] = {
        "dtype": model.dtype,  # "auto" makes a float32 checkpoint bfloat16
        "hf_overrides": {"head_dtype": "model" if model.head_dtype == "model" else "float32"},
        "max_model_len": limit,
        "seed": 0,
        "load_format": "dummy",
        "skip_tokenizer_init": True,  # ids go in and ids come out
        "generation_config": "vllm",  # nothing of the model's generation_config.json
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": -1,
        "enable_prefix_caching": True,
    }
    if parallel.size() > 1:
        settings["distributed_executor_backend"] = "external_launcher"
    if device == "cpu":
        # A chunked prefill moves a generator's offset, which those of a CPU do not have.
        batch = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(limit, CPU_BATCH), "max_num_seqs": 256}
        return settings | batch | {"enforce_eager": True, "kv_cache_memory_bytes": runtime.engine_cpu_mb << 20}
    return settings | {"gpu_memory_utilization": runtime.engine_memory, "enable_sleep_mode": True}


def _start(folder: str, settings: dict[str, Any]) -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with undisturbed():
        try:
            import vllm
        except ImportError as error:
            cure = "pip install -e '.[vllm]' on a machine with a GPU, or set engine=hf"
            raise ImportError(f"sampling.engine: vLLM cannot be imported ({error}); {cure}") from error
        try:
            return vllm.LLM(model=folder, **settings)
        except Exception as error:
            raise RuntimeError(f"the engine vllm did not start: {_what(error)}; {_cure(error)}") from error


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Leaves what is global as it was: vLLM seeds every generator when it starts and draws from them when it samples
    (numbers that a request's own seed replaces), and on a CPU it takes away torch.set_num_threads.
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    threads, set_threads = torch.get_num_threads(), torch.set_num_threads
    try:
        yield
    finally:
        torch.set_num_threads = set_threads
        torch.set_num_threads(threads)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        for device, state in enumerate(on_gpu):
            torch.cuda.set_rng_state(state, device)


def _what(error: BaseException) -> str:
    """The first two lines; the first alone may only count what went wrong."""
    lines = str(error).strip().splitlines()[:2] or [type(error).__name__]
    return " ".join(line.strip() for line in lines)[:300]


def _cure(error: BaseException) -> str:
    text = str(error).lower()
    if any(word in text for word in ("kv cache", "out of memory", "free memory", "allocate memory", "no available")):
        where = "runtime.engine_memory (a share of the GPU)" if torch.cuda.is_available() else "runtime.engine_cpu_mb"
        return f"raise {where}, lower sampling.max_new_tokens, or let fewer runs share the device"
    return "sampling.engine=hf samples without it; the run's error.txt has the whole story"


def is_memory(error: BaseException) -> bool:
    """Whether an error of the engine is one of memory."""
    text = str(error).lower()
    named = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
    return named or "out of memory" in text or "allocate memory" in text
