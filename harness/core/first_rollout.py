"""The samples of a starting point, made once and shared: arms of one seed ask the same of the same model on step 0.

`first_rollouts/<key>.safetensors` beside `runs/`; the key is a hash of all that determines the samples: the model, the
data, the sampling, the prompts drawn and their noise, the seed and RESULT_VERSION. As with `first_eval.py`, a run that
finds the file has what it would have made; what it is spared is timing. Kept sets of top-k are too large to keep: there
each run samples for itself. Leaves out: later steps, whose policies differ.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from harness import store
from harness.config import RunConfig
from harness.core import first_eval
from harness.core.parallel import gathered, is_chief
from harness.core.shapes import Prompts, Rollout
from harness.store.files import replacing

FOLDER = "first_rollouts"
_KEPT = [field.name for field in fields(Rollout) if field.name not in ("prompts", "support")]


def rollout(
    run: store.Run, config: RunConfig, problems: list[int], noise: "np.ndarray", make: Callable[[], Rollout]
) -> tuple[Rollout, float]:
    """What `make` gives for these problems and seeds [p, G], and the seconds spared where another run has made it."""
    if config.identity.sampling.logprob_support == "replay":
        return make(), 0.0
    file = run.path.parents[1] / FOLDER / f"{key(config, problems, noise)}.safetensors"
    found = _read(file)
    everywhere = all(gathered(found is not None))
    if found and everywhere:  # ranks sample together or not at all
        return found
    started = time.perf_counter()
    made = make()
    if is_chief():
        tensors = {name: x.contiguous() for name in _KEPT if (x := getattr(made, name)) is not None}
        tensors |= {"prompts.ids": made.prompts.ids, "prompts.lengths": made.prompts.lengths}
        file.parent.mkdir(exist_ok=True)
        with replacing(file) as temporary:
            save_file(tensors, temporary, {"seconds": f"{time.perf_counter() - started:.3f}"})
    return made, 0.0


def key(config: RunConfig, problems: list[int], noise: "np.ndarray") -> str:
    """16 hex digits of sha256 over what the samples follow from; names are left out, as in `first_eval.key`."""
    identity = config.identity
    parts: dict[str, Any] = {
        "model": first_eval.content(identity.model.model_dump()),
        "data": first_eval.content(identity.data.model_dump()),
        "sampling": identity.sampling.model_dump(),
        "problems": problems,
        "noise": noise.tolist(),
        "seed": config.seed,
        "result_version": identity.result_version,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _read(file: Path) -> tuple[Rollout, float] | None:
    """None where there is none, or only a part that a full disk has left."""
    try:
        with safe_open(file, framework="pt") as kept:
            tensors = {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
            seconds = float(kept.metadata()["seconds"])
    except (OSError, SafetensorError):
        return None
    prompts = Prompts(tensors.pop("prompts.ids"), tensors.pop("prompts.lengths"))
    found: dict[str, torch.Tensor | None] = {name: tensors.get(name) for name in _KEPT}
    return Rollout(prompts, **found), seconds  # type: ignore[arg-type]
