"""What a single GPU makes of the core: log-probabilities in chunks, and whole training steps of a Qwen3-0.6B shape.

Random weights made on the spot in the hub format; torch and transformers, no vLLM, no download; under eight minutes.
Prints a table, and with --json FILE writes it. Checks that chunked and held logits give the same loss and gradient
(exit status 1 otherwise). --tiny is the same in a small shape, in seconds, without a GPU too.

    python -m bench.gpu_check [--tiny] [--json FILE]

Model FLOPs of a token: 6 N for weights N (the tied embedding once, as the head) and 6 · layers · heads · head size ·
length for causal attention; what checkpointing computes twice does not count.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from harness import config, store
from harness.core import head
from harness.core import train as core
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rows
from harness.lab import vocabulary

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "4090": 165e12}  # dense bf16
REAL = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16}
REAL |= {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936}
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 2_000}
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest value of a gradient, in which it is rounded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a small shape, in seconds, on the CPU too")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        print("no GPU is visible to torch; --tiny runs the same on the CPU", file=sys.stderr)
        return 2
    started = time.perf_counter()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"}
    with tempfile.TemporaryDirectory() as name:
        model = _make(Path(name) / "model", TINY if given.tiny else REAL)
        found |= {f"head {key}": value for key, value in _head(given.tiny).items()}
        found |= {f"score {key}": value for key, value in _score(model, given.tiny).items()}
        found |= {f"step {key}": value for key, value in _steps(Path(name), model, given.tiny).items()}
    found["seconds in all"] = time.perf_counter() - started
    for key, value in found.items():
        print(f"  {key:40} {value:.4g}" if isinstance(value, float) else f"  {key:40} {value}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found["head same"] and found["score same"] else 1


def _make(folder: Path, shape: dict[str, int]) -> Path:
    """Random weights in bfloat16 and the laboratory's tokenizer, whose ids are the first of the vocabulary."""
    torch.manual_seed(0)
    tokenizer = vocabulary.tokenizer()
    settings = shape | {"tie_word_embeddings": True, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    model = Qwen3ForCausalLM(Qwen3Config(**settings, pad_token_id=tokenizer.pad_token_id)).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _measured(work: Any) -> tuple[Any, float, float | None]:
    """(its result, seconds, GiB that it took at its peak beyond what was there) of a second call, after warming up."""
    work()
    if _device().type == "cpu":
        start = time.perf_counter()
        return work(), time.perf_counter() - start, None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, start = torch.cuda.memory_allocated(), time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start, (torch.cuda.max_memory_allocated() - before) / 2**30


def _compared(compute: Any, dtype: torch.dtype) -> dict[str, Any]:
    """compute() -> tensors, with held logits and in chunks: the largest relative difference, seconds and peaks."""
    small, found, results = head.SMALL, dict[str, Any](), []
    for name, limit in (("held", 1 << 62), ("chunked", 0)):
        head.SMALL = limit
        values, seconds, peak = _measured(compute)
        results.append(values)
        found |= {f"{name} ms": 1000 * seconds, f"{name} peak GiB": peak}
    head.SMALL = small
    held, chunked = results
    differences = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(chunked, held, strict=True)]
    return found | {"largest difference": max(differences), "same": max(differences) <= TOLERANCE[dtype]}


def _head(tiny: bool) -> dict[str, Any]:
    """Loss and gradient of 4,096 tokens at Qwen3's vocabulary, in float32."""
    tokens, width, size, chunk = (64, 32, 2_000, 16) if tiny else (4_096, 1_024, 151_936, 256)
    torch.manual_seed(0)
    linear = torch.nn.Linear(width, size, bias=False, device=_device())
    states = torch.randn(tokens, width, device=_device()).requires_grad_()
    chosen = torch.randint(size, (tokens,), device=_device())

    def compute() -> list[torch.Tensor]:
        logp, entropy = head.Head(linear).scores(states, chosen, None, 0.99, True, chunk)
        assert entropy is not None
        loss = (logp - 0.01 * entropy).mean()
        return [loss.detach(), *torch.autograd.grad(loss, [states, linear.weight])]

    return _compared(compute, torch.float32)


def _score(model: Path, tiny: bool) -> dict[str, Any]:
    """Log-probabilities and entropies of a whole policy in bfloat16."""
    rows, length = (4, 24) if tiny else (16, 512)
    runtime = config.Runtime(logprob_chunk=16 if tiny else 256)
    policy = Policy.load(config.Model(role="", path=str(model), dtype="bfloat16"), runtime)
    prompts = Prompts.of(policy.encode(["Q A = 3 +1 ?"] * rows))
    tokens = torch.randint(5, 90, (rows, length), generator=torch.Generator().manual_seed(0))
    batch = Rows(prompts, torch.arange(rows), tokens, torch.full((rows,), length))

    @torch.no_grad()
    def compute() -> list[torch.Tensor]:
        logp, entropy = policy.logprobs(batch, 0.99, with_entropy=True)
        assert entropy is not None
        return [logp, entropy]

    found = _compared(compute, torch.bfloat16)
    return found | {"chunked tokens/s": rows * length / found["chunked ms"] * 1000}


def _steps(root: Path, model: Path, tiny: bool) -> dict[str, Any]:
    """Medians over training steps through the core, the first left out; nothing ends early with random weights."""
    prompts, samples, length, steps = (2, 2, 12, 2) if tiny else (16, 8, 256, 3)
    data = {"task": "arithmetic", "min_ops": 2, "max_ops": 4, "size": 64}
    tree = {
        "model": {"role": "check", "path": str(model), "dtype": "bfloat16"},
        "data": data,
        "tricks": {
            "admit": "everything",
            "reward": {"name": "affine", "scale": 2.0, "shift": -1.0},
            "keep": "everything",
        }
        | {"advantage": "none", "weight": "token_mean", "surrogate": "clip", "penalty": "none"},
        "sampling": {"prompts_per_step": prompts, "group_size": samples, "max_new_tokens": length}
        | {"temperature": 0.99, "top_p": 0.99, "top_k": 100, "logprob_support": "replay", "old_logp": "recompute"},
        "train": {"steps": steps, "updates_per_rollout": 2, "lr": 1e-6},
        "evaluate": {"every": 1000, "samples": 1, "max_new_tokens": 1, "benchmarks": {"one": data | {"size": 1}}},
        "runtime": {"checkpoint_every": 1000, "micro_batch_tokens": 16_384, "gradient_checkpointing": True}
        | {"logprob_chunk": 16 if tiny else 256},
    }
    identity, runtime, *_ = config.build(tree)
    run = store.create_run(root, config.RunConfig(identity=identity, runtime=runtime, seed=0))
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    core.train(run)
    rows, timing = run.read("metrics"), run.read("timing")[1:-1]
    phases = {
        name: statistics.median(line["seconds"][name] for line in timing) for name in ("generate", "prepare", "update")
    }
    shape = json.loads((model / "config.json").read_text())
    trained = prompts * samples * rows[1]["m"]["length/mean"]
    rate = trained / phases["update"]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    peak = next((flops for name, flops in PEAK_FLOPS.items() if name in device), None)
    return {f"{name} s": seconds for name, seconds in phases.items()} | {
        "generate tokens/s": trained / phases["generate"],
        "update tokens/s": rate,
        "update MFU": None if peak is None else rate * _flops_per_token(shape, length) / peak,
        "largest |log ratio| at first": rows[1]["m"]["ratio/first_update"],
        "peak GiB": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


def _flops_per_token(shape: dict[str, int], length: int) -> float:
    width, heads, size = shape["hidden_size"], shape["num_attention_heads"], shape["head_dim"]
    attention = 2 * width * size * (heads + shape["num_key_value_heads"])
    weights = shape["num_hidden_layers"] * (attention + 3 * width * shape["intermediate_size"])
    weights += width * shape["vocab_size"]
    return 6 * weights + 6 * shape["num_hidden_layers"] * heads * size * length


if __name__ == "__main__":
    sys.exit(main())
