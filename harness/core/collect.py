"""One step's samples: draws prompts, generates, grades, and refills what the `admit` slot refuses.

The first round of step s takes the prompts s·P … (s+1)·P of the run's order, whatever the tricks, so that arms of one
seed share them. Later rounds take prompts from a second order of their own, as many as the share admitted so far makes
likely to be enough, at most P. A trick that does not look at rewards is asked before sampling. Leaves out: what
becomes of the samples (`step.prepare`).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from harness.config import RunConfig
from harness.core import seeds
from harness.core.evaluate import Graded
from harness.core.history import History
from harness.core.shapes import Rollout
from harness.tricks import Bound

Generate = Callable[[list[int], "np.ndarray"], tuple[Rollout, Graded]]


@dataclass(frozen=True)
class Collected:
    """Everything that was sampled in a step, and which prompts of it train (at most `prompts_per_step`)."""

    problems: list[int]  # P, by position in the data set
    rollout: Rollout
    rewards: Float[Tensor, "P G"]
    formatted: Bool[Tensor, "P G"]
    texts: list[str]
    admitted: Bool[Tensor, "P"]
    drawn: int  # prompts looked at, also those refused before sampling
    rounds: int


def collect(config: RunConfig, size: int, admit: Bound, history: History, step: int, generate: Generate) -> Collected:
    """`size` is the number of problems; `generate` samples and grades these problems with these seeds [p, G].

    Raises RuntimeError when prompts are missing after the last round and sampling.short_batch is `error`.
    """
    sampling = config.identity.sampling
    wanted, seen = sampling.prompts_per_step, Counter[int]()
    early = "rewards" not in admit.inputs
    parts: list[tuple[list[int], Rollout, Graded, Tensor]] = []
    chosen: list[int] = []  # admitted before sampling, not sampled yet
    drawn = have = rounds = 0
    while have < wanted and rounds < sampling.max_rounds:
        share = have / max(1, drawn)
        number = min(wanted, math.ceil((wanted - have) / max(share, 1 / wanted)))
        problems = _draw(config, size, step, rounds, number)
        rounds, drawn = rounds + 1, drawn + number
        if early:
            ok = admit({"history": history.of(problems)})
            chosen += [problem for problem, good in zip(problems, ok.tolist(), strict=True) if good]
            have = len(chosen)
            continue
        rollout, graded = generate(problems, _noise(config, step, problems, seen))
        ok = admit({"rewards": graded.right, "history": history.of(problems)})
        parts.append((problems, rollout, graded, ok))
        have += int(ok.sum())
    if chosen:
        chosen = chosen[:wanted]
        rollout, graded = generate(chosen, _noise(config, step, chosen, seen))
        parts.append((chosen, rollout, graded, torch.ones(len(chosen), dtype=torch.bool)))
    if have < wanted and sampling.short_batch == "error":
        raise RuntimeError(
            f"step {step}: only {have} of {wanted} prompts are admitted after {rounds} rounds ({drawn} prompts); raise "
            "sampling.max_rounds, take easier or harder data, or set sampling.short_batch=train for smaller batches"
        )
    return _join(parts, wanted, drawn, rounds, sampling.group_size)


def _join(
    parts: list[tuple[list[int], Rollout, Graded, Tensor]], wanted: int, drawn: int, rounds: int, samples: int
) -> Collected:
    if not parts:  # everything was refused before sampling
        none = torch.zeros(0, samples)
        return Collected([], Rollout.none(samples), none.double(), none.bool(), [], none.bool()[:, 0], drawn, rounds)
    admitted = torch.cat([ok for *_, ok in parts])
    admitted &= admitted.cumsum(0) <= wanted  # the last round may admit more than were missing
    return Collected(
        [problem for problems, *_ in parts for problem in problems],
        Rollout.join([rollout for _, rollout, *_ in parts]),
        torch.cat([graded.right for _, _, graded, _ in parts]),
        torch.cat([graded.formatted for _, _, graded, _ in parts]),
        [text for _, _, graded, _ in parts for text in graded.texts],
        admitted,
        drawn,
        rounds,
    )


def _draw(config: RunConfig, size: int, step: int, round: int, count: int) -> list[int]:
    """`count` problems: of the run's order in the first round, of the refills' order in the later ones."""
    wanted, rounds = config.identity.sampling.prompts_per_step, config.identity.sampling.max_rounds
    if round == 0:
        return seeds.prompt_order(config.seed, size, step * wanted, count)
    start = (step * (rounds - 1) + round - 1) * wanted
    return seeds.prompt_order(seeds.derive(config.seed, "refill"), size, start, count)


def _noise(config: RunConfig, step: int, problems: list[int], seen: Counter[int]) -> "np.ndarray":
    """seeds[p,G]; the same for every arm of one seed. A prompt drawn twice in a step goes on counting samples."""
    size = config.identity.sampling.group_size
    noise = []
    for i in problems:
        noise.append([seeds.derive(config.seed, "rollout", step, i, seen[i] * size + g) for g in range(size)])
        seen[i] += 1
    return np.array(noise)
