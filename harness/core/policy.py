"""The policy: a causal language model with its tokenizer, and the log-probabilities of its responses.

Any `AutoModelForCausalLM` folder or hub id works through transformers' own forward, on the rank's GPU where there is
one; a Qwen3 on the CPU takes the faster functional form of `qwen3.py`, which computes the same. Training logits are
divided by the sampling temperature, so that they describe the distribution that was sampled. What comes in and goes
out lies on the CPU. Leaves out: sampling (`engines/`), the loss (`step.py`), several ranks (`sharded.py`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.config import Model, Runtime
from harness.core import adapters, forward, head, qwen3
from harness.core.hub import AutoModelForCausalLM, AutoTokenizer  # seconds: before a run is claimed, like torch
from harness.core.shapes import Prompts, Rows
from harness.store import roots


class Policy:
    def __init__(self, model: Any, tokenizer: Any, config: Model | None = None, chunk: int = 1024) -> None:
        """`config` says how prompts are written and in which dtype the head is; `chunk` is runtime.logprob_chunk."""
        self.model = model.eval()  # no dropout: the ratio must be 1 before the first update
        self.tokenizer = tokenizer
        self.config = config or Model(role="", path="")
        self.chunk = chunk
        self.head = head.read(model, self.config.head_dtype == "float32")
        self.end_tokens = _end_tokens(model, tokenizer)
        self.fast = qwen3.supports(model)
        self.texts: dict[int, str] = {}  # of the tokens asked for so far

    @staticmethod
    def load(config: Model, runtime: Runtime | None = None, seed: int = 0) -> "Policy":
        """`seed` draws what the model does not bring: the adapters.

        Raises FileNotFoundError naming model.path when no model is there, ValueError for a chat template that is not.
        """
        path = find_folder(config.path)
        if path is None and not config.content.startswith("hub:"):
            raise FileNotFoundError(f"model.path: no model folder '{config.path}'; give one with model.path=FOLDER")
        where = str(path or config.path)
        tokenizer = AutoTokenizer.from_pretrained(where)
        if config.chat and not tokenizer.chat_template:
            raise ValueError(f"model.chat: the tokenizer of '{config.path}' has no chat template; set model.chat=false")
        model = AutoModelForCausalLM.from_pretrained(where, dtype=getattr(torch, config.dtype)).to(_device())
        if config.lora_rank:
            adapters.add(model, config.lora_rank, config.lora_alpha, seed)
        policy = Policy(model, tokenizer, config, *([runtime.logprob_chunk] if runtime else []))
        if runtime and runtime.gradient_checkpointing:
            forward.recompute_layers(model)
            policy.fast = False  # it keeps what it computes
        return policy

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def named_parameters(self) -> dict[str, Tensor]:
        """Those that are trained: all, or the adapters."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def parameters(self) -> list[Tensor]:
        return list(self.named_parameters().values())

    def full_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Whole tensors by the names of the hub format, adapters merged, on the policy's device: for engines and files.

        They may be the live weights, which the next update changes. All ranks have to iterate together.
        """
        return adapters.merged(self.model)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of prompts, never with an end token behind them.

        As plain text with the tokenizer's own opening tokens, or as the user's turn of its chat template, with
        model.system before it and the assistant's opening after it.
        """
        if self.config.chat:
            system = [{"role": "system", "content": self.config.system}] if self.config.system else []
            turns = [[*system, {"role": "user", "content": text}] for text in texts]
            template = {"add_generation_prompt": True, "enable_thinking": self.config.thinking}
            return [list(self.tokenizer.apply_chat_template(turn, return_dict=False, **template)) for turn in turns]
        encoded = self.tokenizer(texts)["input_ids"]
        return [ids[:-1] if ids and ids[-1] in self.end_tokens else ids for ids in encoded]

    def decode(self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> list[str]:
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)

    def words(self, ids: list[int]) -> list[str]:
        """Each token's own text, special ones included; several may read alike."""
        if new := [i for i in dict.fromkeys(ids) if i not in self.texts]:
            self.texts |= dict(zip(new, self.tokenizer.batch_decode([[i] for i in new]), strict=True))
        return [self.texts[i] for i in ids]

    def logprobs(
        self, rows: Rows, temperature: float, with_entropy: bool = False
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"] | None]:
        """log π(token) of every response token in nats, 0 beyond its length; full-vocabulary entropy if asked.

        Over `rows.support` where it is given, else over the full vocabulary. Both carry gradient.
        """
        packed = self.fast and qwen3.fits(self.model, rows)
        logp, entropy = (self._packed if packed else self._padded)(rows, temperature, with_entropy)
        mask = rows.mask

        def placed(values: Tensor) -> Tensor:
            return torch.zeros(mask.shape).masked_scatter(mask, values.cpu())

        return placed(logp), None if entropy is None else placed(entropy)

    def _padded(self, rows: Rows, temperature: float, with_entropy: bool) -> head.Scores:
        return forward.scores(self.model, self.head, rows, temperature, with_entropy, self.chunk)

    def _packed(self, rows: Rows, temperature: float, with_entropy: bool) -> head.Scores:
        mask = rows.mask
        tokens, support = rows.tokens[mask], None if rows.support is None else rows.support[mask]
        if self.head is None or len(tokens) * self.model.config.vocab_size <= head.SMALL:
            logits = qwen3.packed_logits(self.model, rows)
            return head.scores(logits, tokens, support, temperature, with_entropy)
        states = qwen3.packed_states(self.model, rows)
        return self.head.scores(states, tokens, support, temperature, with_entropy, self.chunk)

    def decoder(self, prompts: Prompts, samples: int, max_new_tokens: int) -> Any:
        """A decoder with `first_logits`, `step(tokens)` and `keep(rows)`, prompts repeated `samples` times."""
        if self.fast:
            return qwen3.Decoder(self.model, prompts, samples, max_new_tokens)
        return forward.CachedDecoder(self.model, self.head, prompts, samples)


def find_folder(path: str) -> Path | None:
    """A model folder as given, or relative to the repository or to what a snapshot of it was taken from; else None."""
    return next((p for p in (Path(path), *(root / path for root in roots())) if (p / "config.json").is_file()), None)


def _device() -> torch.device:
    """This rank's GPU, or the CPU where there is none."""
    return (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    )


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends a response: all of the generation config's, and the tokenizer's."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    found = [ids] if isinstance(ids, int) else list(ids or [])
    if tokenizer.eos_token_id is not None:
        found.append(tokenizer.eos_token_id)
    if not found:
        raise ValueError("model: neither generation_config.json nor the tokenizer names an end token (eos_token_id)")
    return sorted(set(found))
