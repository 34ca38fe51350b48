"""Our loss beside TRL's, on the same numbers: TRL's own `_compute_loss` is called with a trainer of attributes alone.

For each of TRL's loss types whose definition is one of ours, prints both losses and the largest difference of their
gradients with respect to the log-probabilities; exits 1 where they differ. `tests/core/test_against_trl.py` holds
these values as literals, since TRL is no dependency of the tests. Leaves out: speed (`step.py`).

    python -m bench.against_trl
"""

import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from harness import tricks

LENGTHS, LIMIT = (3, 7, 5, 1), 8
TOLERANCE = 2e-6


def numbers() -> dict[str, Tensor]:
    """Log-probabilities [4, 7] whose ratios cross every clip, reference ones, advantages [4]; no random numbers."""
    place = torch.arange(28, dtype=torch.float32).view(4, 7)
    return {
        "logp": -1.0 + 0.4 * torch.sin(place),
        "old": -1.0 + 0.4 * torch.sin(1.7 * place + 1),
        "ref": -1.0 + 0.4 * torch.sin(0.9 * place + 2),
        "advantage": torch.tensor([1.0, -0.5, 0.75, -2.0]),
        "mask": torch.arange(7) < torch.tensor(LENGTHS)[:, None],
    }


# name -> (TRL's settings, our tricks)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dapo": (
        {"loss_type": "dapo", "epsilon_high": 0.8},
        {"weight": "token_mean", "surrogate": ("clip", {"high": 0.8})},
    ),
    "grpo": ({"loss_type": "grpo"}, {"weight": "sequence_mean"}),
    "bnpo": ({"loss_type": "bnpo"}, {"weight": ("microbatch_token_mean", {"rows": 4})}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, {"weight": "constant_length"}),
    "delta": ({"loss_type": "grpo", "delta": 1.3}, {"weight": "sequence_mean", "surrogate": ("dual_clip", {"c": 1.3})}),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        {"weight": "sequence_mean", "surrogate": ("gspo", {"low": 0.2, "high": 0.2})},
    ),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.2},
        {"weight": "token_mean", "surrogate": ("cispo", {"low": 1.0, "high": 0.2})},
    ),
    "sapo": ({"loss_type": "sapo"}, {"weight": "sequence_mean", "surrogate": "sapo"}),
    "k3": ({"loss_type": "grpo", "beta": 0.04}, {"weight": "sequence_mean", "penalty": "k3"}),
}


def ours(chosen: dict[str, Any]) -> tuple[float, Tensor]:
    """(loss, gradient) of the slots named, clip 0.2, token mean and no penalty where none is."""
    n = numbers()
    logp = n["logp"].requires_grad_()

    def slot(name: str, default: str) -> tricks.Bound:
        given = chosen.get(name, default)
        trick, knobs = given if isinstance(given, tuple) else (given, {})
        return tricks.bind(name, trick, knobs)

    mask, advantage = n["mask"], n["advantage"][:, None].expand(4, 7)
    weight = slot("weight", "token_mean")({"mask": mask[None], "limit": LIMIT})[0]
    offered = {"logratio": torch.where(mask, logp - n["old"], 0.0), "advantage": advantage, "mask": mask}
    offered |= {"logp": logp, "ref_logp": n["ref"]}
    gain = slot("surrogate", "clip")(offered) - slot("penalty", "none")(offered)
    loss = -torch.where(mask, weight * gain, 0.0).sum()
    return float(loss.detach()), torch.autograd.grad(loss, logp)[0]


def theirs(settings: dict[str, Any]) -> tuple[float, Tensor]:
    """(loss, gradient) of TRL's `_compute_loss`."""
    from trl import GRPOTrainer

    n = numbers()
    logp = n["logp"].requires_grad_()
    args = SimpleNamespace(
        delta=settings.get("delta"),
        sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05,
        use_bias_correction_kl=False,
        steps_per_generation=1,
    )
    trainer: Any = SimpleNamespace(
        args=args,
        loss_type=settings["loss_type"],
        importance_sampling_level=settings.get("importance_sampling_level", "token"),
        epsilon_low=0.2,
        epsilon_high=settings.get("epsilon_high", 0.2),
        beta=settings.get("beta", 0.0),
        max_completion_length=LIMIT,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        use_vllm=False,
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, torch.zeros_like(logp), None),
    )
    inputs = {
        "prompt_ids": torch.zeros(4, 1, dtype=torch.long),
        "prompt_mask": torch.ones(4, 1, dtype=torch.long),
        "completion_ids": torch.zeros(4, 7, dtype=torch.long),
        "completion_mask": n["mask"].long(),
        "advantages": n["advantage"],
        "old_per_token_logps": n["old"],
        "ref_per_token_logps": n["ref"],
        "num_items_in_batch": n["mask"].sum(),
    }
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    return float(loss.detach()), torch.autograd.grad(loss, logp)[0]


def main() -> int:
    different = 0
    for name, (settings, chosen) in CASES.items():
        (mine, my_gradient), (peers, gradient) = ours(chosen), theirs(settings)
        gap = float((my_gradient - gradient).abs().max())
        # cispo multiplies log π (TRL) or log ρ (ours): the values differ by a constant, the gradients do not
        same = gap < TOLERANCE and (abs(mine - peers) < TOLERANCE or name == "cispo")
        different += not same
        print(
            f"{name:8} ours {mine:+.6f}  TRL {peers:+.6f} with gradient norm {float(gradient.norm()):.6f}; "
            f"gradients differ by {gap:.1e}{'' if same else '  DIFFERENT'}"
        )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
