"""Start accuracies of a miniature model: sampled at temperature 1 and greedy, by transformers' own `generate`.

Leaves out: speed; the core has the fast sampler, this one is independent of it.
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from harness.config import ArithmeticData
from harness.tasks import arithmetic

DIFFICULTIES = {"easy": (2, 3), "medium": (4, 6), "hard": (7, 9)}
BUDGETS = {"easy": 40, "medium": 64, "hard": 90}


@dataclass(frozen=True)
class Start:
    """Shares and a mean over the sampled responses; `greedy` is the accuracy without sampling."""

    accuracy: float
    greedy: float
    length: float
    truncated: float


def start(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, difficulty: str, size: int = 400, seed: int = 9
) -> Start:
    """On `size` held-out problems of a difficulty, one sample each."""
    low, high = DIFFICULTIES[difficulty]
    asked = arithmetic.problems(ArithmeticData(min_ops=low, max_ops=high, split="heldout", size=size, seed=seed))
    prompts, answers = [problem.prompt for problem in asked], [problem.answer for problem in asked]
    sampled = respond(model, tokenizer, prompts, BUDGETS[difficulty], seed)
    greedy = respond(model, tokenizer, prompts, BUDGETS[difficulty], None)
    return Start(
        _accuracy(sampled, answers),
        _accuracy(greedy, answers),
        sum(response.length for response in sampled) / size,
        sum(not response.finished for response in sampled) / size,
    )


@dataclass(frozen=True)
class Response:
    text: str  # without the end token
    length: int  # with it
    finished: bool


def _accuracy(responses: list[Response], answers: list[str]) -> float:
    pairs = zip(responses, answers, strict=True)
    return sum(r.finished and arithmetic.grade(r.text, answer) == "right" for r, answer in pairs) / len(answers)


@torch.no_grad()
def respond(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str], budget: int, seed: int | None
) -> list[Response]:
    """One response per prompt, sampled at temperature 1, or greedy without a seed."""
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed or 0)
        out = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=budget,
            pad_token_id=tokenizer.pad_token_id,
            do_sample=seed is not None,
            **({"top_k": 0, "top_p": 1.0} if seed is not None else {}),
        )
    end, responses = tokenizer.eos_token_id, []
    for row in out[:, batch["input_ids"].shape[1] :].tolist():
        finished = end in row
        body = row[: row.index(end)] if finished else row
        responses.append(Response(str(tokenizer.decode(body)), len(body) + finished, finished))
    return responses
