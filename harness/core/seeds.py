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
    """float64[*seeds.shape, length] in [0, 1), one stream per seed; a longer one only appends.

    SplitMix64 (Steele, Lea and Flood, 2014): the state advances by a fixed odd constant, so that all streams and
    all their positions are computed at once.
    """
    with np.errstate(over="ignore"):
        counter = np.arange(1, length + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = _mix(seeds.astype(np.uint64))[..., None] + counter
        return (_mix(z) >> np.uint64(11)) * 2.0**-53


def _mix(z: "np.ndarray") -> "np.ndarray":
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


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
        while len(_LAST) > 3:  # this epoch and the next, of the prompts and of the refills
            _LAST.pop(next(iter(_LAST)))
        _LAST[key] = np.random.default_rng(derive(seed, "order", epoch)).permutation(size)
    return _LAST[key]


def minibatches(seed: int, step: int, epoch: int, prompts: int, parts: int) -> list["np.ndarray"]:
    """Prompt indices of each minibatch of one pass over the rollout, in shuffled order; whole groups stay together."""
    order = np.random.default_rng(derive(seed, "minibatch", step, epoch)).permutation(prompts)
    return [part for part in np.array_split(order, parts) if part.size]
