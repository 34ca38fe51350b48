"""Every random number of a run, derived from what it is for and never from what was drawn before.

Prompts, their order and sampling noise depend on (run seed, purpose, step, prompt id, sample) alone: arms of one
seed share them (common random numbers), and a resumed run needs no saved generator.
"""

import hashlib

import numpy as np


def derive(*parts: int | str) -> int:
    """A 63-bit seed of the parts; equal parts give equal seeds on every machine."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def uniforms(seeds: "np.ndarray", length: int) -> "np.ndarray":
    """float64[*seeds.shape, length] in [0, 1), one independent stream per seed; a longer one only appends."""
    streams = [np.random.Generator(np.random.Philox(key=int(seed))).random(length) for seed in seeds.reshape(-1)]
    return np.stack(streams).reshape(*seeds.shape, length)


def prompt_order(seed: int, size: int, start: int, count: int) -> list[int]:
    """Indices of the prompts `start … start + count` of an endless stream of reshuffled epochs."""
    out = []
    for position in range(start, start + count):
        epoch, offset = divmod(position, size)
        out.append(int(_permutation(seed, epoch, size)[offset]))
    return out


_LAST: dict[tuple[int, int, int], "np.ndarray"] = {}


def _permutation(seed: int, epoch: int, size: int) -> "np.ndarray":
    key = (seed, epoch, size)
    if key not in _LAST:
        while len(_LAST) > 1:
            _LAST.pop(next(iter(_LAST)))
        _LAST[key] = np.random.default_rng(derive(seed, "order", epoch)).permutation(size)
    return _LAST[key]


def minibatches(seed: int, step: int, epoch: int, prompts: int, parts: int) -> list["np.ndarray"]:
    """Prompt indices of each minibatch of one pass over the rollout, in shuffled order; whole groups stay together."""
    order = np.random.default_rng(derive(seed, "minibatch", step, epoch)).permutation(prompts)
    return [part for part in np.array_split(order, parts) if part.size]
