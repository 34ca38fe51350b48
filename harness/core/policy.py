"""The policy: a causal language model with its tokenizer, and the log-probabilities of its responses.

Any `AutoModelForCausalLM` folder works through transformers' own forward; a Qwen3 on the CPU takes the faster
functional form of `qwen3.py`, which computes the same. Training logits are divided by the sampling temperature,
so that they describe the distribution that was sampled. Leaves out: sampling (`engines/`), the loss (`step.py`).
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer  # seconds: before a run is claimed, like torch

from harness.config import Model
from harness.core import qwen3
from harness.core.shapes import Prompts, Rows
from harness.store import roots


class Policy:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model.eval()  # no dropout: the ratio must be 1 before the first update
        self.tokenizer = tokenizer
        self.end_tokens = _end_tokens(model, tokenizer)
        self.fast = qwen3.supports(model)
        self.texts: dict[int, str] = {}  # of the tokens asked for so far

    @staticmethod
    def load(config: Model) -> "Policy":
        """Raises FileNotFoundError naming model.path when no model is there."""
        path = find_folder(config.path)
        if path is None and not config.content.startswith("hub:"):
            raise FileNotFoundError(f"model.path: no model folder '{config.path}'; give one with model.path=FOLDER")
        where = str(path or config.path)
        model = AutoModelForCausalLM.from_pretrained(where, dtype=getattr(torch, config.dtype))
        return Policy(model, AutoTokenizer.from_pretrained(where))

    def named_parameters(self) -> dict[str, Tensor]:
        return dict(self.model.named_parameters())

    def parameters(self) -> list[Tensor]:
        return list(self.model.parameters())

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of prompts, with the tokenizer's own opening tokens and never an end token."""
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
        """log π(token) of every response token in nats, 0 beyond its length; full-vocabulary entropy if asked."""
        mask = rows.mask
        packed = self.fast and qwen3.fits(self.model, rows)
        logits = (qwen3.packed_logits if packed else _padded_logits)(self.model, rows)
        logits = tempered(logits, temperature)
        chosen = -F.cross_entropy(logits, rows.tokens[mask], reduction="none")
        logp = torch.zeros(mask.shape).masked_scatter(mask, chosen)
        if not with_entropy:
            return logp, None
        logs = logits.log_softmax(-1)
        return logp, torch.zeros(mask.shape).masked_scatter(mask, -(logs.exp() * logs).sum(-1))

    def decoder(self, prompts: Prompts, samples: int, max_new_tokens: int) -> Any:
        """A decoder with `first_logits`, `step(tokens)` and `keep(rows)`, prompts repeated `samples` times."""
        kind = qwen3.Decoder if self.fast else _CachedDecoder
        return kind(self.model, prompts, samples, max_new_tokens)


def tempered(logits: Float[Tensor, "n V"], temperature: float) -> Float[Tensor, "n V"]:
    """logits / temperature in fp32; without the pass over all of them where it divides by one."""
    return logits.float() if temperature == 1.0 else logits.float() / temperature


def find_folder(path: str) -> Path | None:
    """A model folder as given, or relative to the repository or to what a snapshot of it was taken from; else None."""
    return next((p for p in (Path(path), *(root / path for root in roots())) if (p / "config.json").is_file()), None)


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends a response: all of the generation config's, and the tokenizer's."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    found = [ids] if isinstance(ids, int) else list(ids or [])
    if tokenizer.eos_token_id is not None:
        found.append(tokenizer.eos_token_id)
    if not found:
        raise ValueError("model: neither generation_config.json nor the tokenizer names an end token (eos_token_id)")
    return sorted(set(found))


def padded_states(model: Any, rows: Rows) -> Float[Tensor, "n d"]:
    """The last hidden states that predict each response token, through transformers' own forward."""
    ids, used, predicts = _padded(rows)
    return model.base_model(input_ids=ids, attention_mask=used, use_cache=False).last_hidden_state[predicts]


def _padded_logits(model: Any, rows: Rows) -> Float[Tensor, "n V"]:
    """Logits that predict each response token, with whatever a model's own head does to them."""
    ids, used, predicts = _padded(rows)
    return model(input_ids=ids, attention_mask=used, use_cache=False).logits[predicts]


def _padded(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """(ids, attention mask, which positions predict a response token), each [B, L + T]; padding on the right."""
    starts, lengths = rows.prompts.lengths[rows.prompt_index], rows.lengths
    width = int((starts + lengths).max())
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    place = torch.arange(width)
    in_prompt, used = place < starts[:, None], place < (starts + lengths)[:, None]
    prompt_ids = rows.prompts.ids[rows.prompt_index]
    ids[in_prompt] = prompt_ids[torch.arange(prompt_ids.shape[1]) < starts[:, None]]
    ids[used & ~in_prompt] = rows.tokens[rows.mask]
    predicts = (place >= starts[:, None] - 1) & (place < (starts + lengths)[:, None] - 1)
    return ids, used.long(), predicts


class _CachedDecoder:
    """Decoding through transformers' own forward and cache; prompts padded on the left."""

    def __init__(self, model: Any, prompts: Prompts, samples: int, max_new_tokens: int) -> None:
        self.model = model
        width, lengths = prompts.ids.shape[1], prompts.lengths
        ids = torch.stack([row.roll(width - int(length)) for row, length in zip(prompts.ids, lengths, strict=True)])
        mask = torch.arange(width) >= width - lengths[:, None]
        positions = (torch.arange(width) - (width - lengths[:, None])).clamp(min=0)
        output = model(input_ids=ids, attention_mask=mask.long(), position_ids=positions, use_cache=True)
        self.cache = output.past_key_values
        self.cache.batch_repeat_interleave(samples)
        self.mask = mask.long().repeat_interleave(samples, 0)
        self.position = lengths.repeat_interleave(samples)
        self.first_logits = output.logits[:, -1].repeat_interleave(samples, 0)

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        self.mask = F.pad(self.mask, (0, 1), value=1)
        output = self.model(
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=self.position[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.position = self.position + 1
        return output.logits[:, -1]

    def keep(self, rows: Int[Tensor, "r"]) -> None:
        self.cache.batch_select_indices(rows)
        self.mask, self.position = self.mask[rows], self.position[rows]
