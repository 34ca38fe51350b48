"""Engine `vllm`: samples with vLLM in this process, from weights that it takes over at every sync.

One request a sample, each with its own seed, so that a sample's noise depends on nothing else. Token ids go in and come
out, nothing is encoded again. Log-probabilities are float32 of the distribution that was sampled from. After each
sync the engine and the policy score the same tokens (`probe.py`), since three mistakes here make no sound: old weights,
old prefixes in the cache, and a tied head that stays behind. On a GPU the engine sleeps while it is not sampling, so
that training has its memory. Leaves out: the entropy, which the trainer scores; starting (`vllm_start.py`).
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.config import RunConfig
from harness.core import probe
from harness.core.engines import SamplingParams, vllm_start
from harness.core.engines.watchdog import Watchdog
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout

HANGS_AFTER = 600.0  # seconds without a step of the engine; the longest is the first one, over whole prompts
HOTTEST = 2.0
TIES = 8  # tokens beyond top_k that are asked for, since all that equal the last of the top_k are kept too


class VllmEngine:
    llm: Any = None

    def __init__(self, config: RunConfig) -> None:
        """Raises ValueError for a temperature that vLLM does not take, or a truncation whose tokens it cannot name."""
        sampling = config.identity.sampling
        for key, section in (("sampling", sampling), ("evaluate", config.identity.evaluate)):
            if section.temperature > HOTTEST:
                raise ValueError(f"{key}.temperature: vLLM takes {HOTTEST:g} at most, got {section.temperature:g}")
        if sampling.logprob_support == "replay" and sampling.top_p < 1.0 and not sampling.top_k:
            raise ValueError(
                f"sampling.logprob_support: replay under top_p={sampling.top_p:g} alone may have to name the whole "
                "vocabulary at every token; set sampling.top_k=100 beside it, or logprob_support=full"
            )
        self.config = config

    def sync(self, policy: Policy) -> dict[str, float]:
        """Takes over the policy's weights and proves it. Raises RuntimeError where engine and policy disagree."""
        if self.llm is None:
            self.llm = vllm_start.engine(self.config, policy)
        self.ends, self.limit = policy.end_tokens, self.llm.model_config.max_model_len
        self.sleeps = policy.device.type != "cpu"
        dtype = getattr(torch, self.config.identity.model.dtype)
        weights = ((name, weight.to(dtype)) for name, weight in policy.full_weights())
        with self._forgotten_if_it_fails():
            self._wake(["weights"])
            self.llm.collective_rpc(_take_over, args=(weights,))
            self.llm.reset_prefix_cache()
        return {"engine/probe_gap": probe.check(self, policy, self.config)}

    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        longest = int(prompts.lengths.max())
        if longest + params.max_new_tokens > self.limit:
            raise ValueError(
                f"a prompt of {longest} tokens and {params.max_new_tokens} to come are more than the {self.limit} that "
                "the model or the engine holds; drop longer prompts from the data, or lower max_new_tokens"
            )
        ids = [row[:length] for row, length in zip(prompts.ids.tolist(), prompts.lengths.tolist(), strict=True)]
        requests = [(ids[p], int(seed)) for p, row in enumerate(seeds) for seed in row]
        with self._forgotten_if_it_fails():
            outputs = self._run(requests, params)
        return _rollout(prompts, seeds.shape, outputs, params)

    def _run(self, requests: list[tuple[list[int], int]], params: SamplingParams) -> list[Any]:
        """The completions in the order of the requests."""
        import vllm

        self._wake()
        found: dict[str, Any] = {}
        asked = [vllm.TokensPrompt(prompt_token_ids=ids) for ids, _ in requests]
        told = [_sampling(params, seed, self.ends, self._kept(params)) for _, seed in requests]
        advice = "lower sampling.max_new_tokens or runtime.engine_memory, or set engine=hf"
        eager = "force_eager" if not self.sleeps else "default"  # compiling a counter takes a CPU longer than a run
        with vllm_start.undisturbed(), torch.compiler.set_stance(eager), Watchdog(HANGS_AFTER, advice) as dog:
            self.llm.enqueue(asked, told, use_tqdm=False)
            while self.llm.llm_engine.has_unfinished_requests():
                for output in self.llm.llm_engine.step():
                    found[output.request_id] = output.outputs[0]
                dog.pat()
        if self.sleeps:
            self.llm.sleep(level=1)
        return [found[name] for name in sorted(found, key=int)]  # numbered as they were asked

    def _wake(self, tags: list[str] | None = None) -> None:
        if self.sleeps:
            torch.cuda.empty_cache()  # what training has freed is not free for others before
            self.llm.wake_up(tags)

    @contextlib.contextmanager
    def _forgotten_if_it_fails(self) -> Iterator[None]:
        """After an error nothing in the engine can be trusted, by this run or the worker's next."""
        try:
            yield
        except Exception as error:
            self.close()
            vllm_start.forget()
            if vllm_start.is_memory(error):
                cure = "lower sampling.max_new_tokens, or runtime.engine_memory where training has taken its memory"
                raise RuntimeError(f"out of memory in the engine vllm: {error}; {cure}") from error
            raise

    def _kept(self, params: SamplingParams) -> int:
        """How many log-probabilities a token is asked for beside its own."""
        if not (params.replay and params.truncated):
            return 0
        return min(params.top_k + TIES, self.llm.model_config.get_vocab_size())

    def close(self) -> None:
        self.llm = None  # the worker's next run may want it


def _take_over(worker: Any, weights: Iterator[tuple[str, Tensor]]) -> None:
    """Runs in vLLM's worker. On a CPU a tied head holds a packed copy of its own, which a reload leaves as it was."""
    worker.reload_weights(weights_iterator=weights)
    head = getattr(worker.get_model(), "lm_head", None)
    if worker.device.type == "cpu" and head is not None and worker.model_config.hf_text_config.tie_word_embeddings:
        head.quant_method.process_weights_after_loading(head)


def _sampling(params: SamplingParams, seed: int, ends: list[int], logprobs: int) -> Any:
    """Every field that has a say in what is sampled, so that no default of vLLM or of the model has one."""
    import vllm

    return vllm.SamplingParams(
        n=1,
        seed=seed,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        min_p=0.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=1.0,
        max_tokens=params.max_new_tokens,
        min_tokens=0,
        stop=None,
        stop_token_ids=ends,
        ignore_eos=True,  # the policy's end tokens are the only ones
        bad_words=None,
        logit_bias=None,
        allowed_token_ids=None,
        logprobs=logprobs,
        prompt_logprobs=None,
        flat_logprobs=True,
        detokenize=False,
        skip_special_tokens=False,
        spaces_between_special_tokens=True,
        include_stop_str_in_output=False,
    )


def _rollout(prompts: Prompts, shape: tuple[int, ...], outputs: list[Any], params: SamplingParams) -> Rollout:
    """Raises RuntimeError for a response that ended neither by an end token nor by length."""
    odd = sorted({str(output.finish_reason) for output in outputs} - {"stop", "length"})
    if odd:
        raise RuntimeError(f"the engine vllm ended a response for '{odd[0]}', not by an end token or for length")
    lengths = torch.tensor([len(output.token_ids) for output in outputs])
    tokens = torch.zeros(len(outputs), int(lengths.max()), dtype=torch.long)
    logp, supports = torch.zeros(tokens.shape), []
    for row, output in enumerate(outputs):
        length = len(output.token_ids)
        tokens[row, :length] = torch.tensor(output.token_ids)
        logp[row, :length] = torch.tensor(output.logprobs.logprobs)[torch.tensor(output.logprobs.start_indices)]
        if params.replay and params.truncated:
            supports.append(_support(output.logprobs, length))
    truncated = torch.tensor([output.finish_reason == "length" for output in outputs])
    whole = (*shape, tokens.shape[1])
    support = _joined(supports, tokens.shape[1]).view(*whole, -1) if supports else None
    return Rollout(
        prompts,
        tokens.view(whole),
        lengths.view(shape),
        truncated.view(shape),
        logp.view(whole),
        None,
        support,
    )


def _support(logprobs: Any, length: int) -> Int[Tensor, "T K"]:
    """The ids that could be sampled at each position, the sampled one first, padded with -1.

    vLLM gives the sampled token and then the most likely ones, which may name it again; what top-k and top-p cut off is
    there with -inf.
    """
    ids = torch.tensor(logprobs.token_ids).view(length, -1)
    values: Float[Tensor, "T K"] = torch.tensor(logprobs.logprobs).view(length, -1)
    again = ids == ids[:, :1]
    again[:, 0] = False
    ids = ids.masked_fill(again | values.isneginf(), -1)
    ids = ids.gather(-1, (ids < 0).byte().argsort(dim=-1, stable=True))
    return ids[:, : int((ids >= 0).sum(-1).max())]


def _joined(supports: list[Tensor], width: int) -> Int[Tensor, "B T K"]:
    most = max(part.shape[-1] for part in supports)
    out = torch.full((len(supports), width, most), -1, dtype=torch.int32)
    for row, part in zip(out, supports, strict=True):
        row[: part.shape[0], : part.shape[1]] = part
    return out
