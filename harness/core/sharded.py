"""One model over several ranks: FSDP2 shards each decoder layer and the rest, gradients are summed, never averaged.

A shard is a rank's rows of the first axis, in float32 whatever the model computes in (`model.dtype`), so that an
update of 1e-6 is not lost in bfloat16. Every forward and backward pass is a collective: all ranks make the same number
of them. Leaves out: the functional Qwen3, which reads whole weights; tensor and pipeline parallelism.
"""

import types
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from harness.core import parallel
from harness.core.hub import GradientCheckpointingLayer

T = TypeVar("T")


def shard(model: Any) -> None:
    """In place. Afterwards parameters are float32 DTensors; `within` has the others whole, in the model's dtype."""
    parameter = next(model.parameters())
    mesh = init_device_mesh(parameter.device.type, (parallel.size(),))
    computed = None if parameter.dtype == torch.float32 else parameter.dtype
    precision = MixedPrecisionPolicy(param_dtype=computed, reduce_dtype=torch.float32)
    for module in [*(m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)), model]:
        unit = fully_shard(module, mesh=mesh, mp_policy=precision, reshard_after_forward=True)
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)  # gloo knows no other reduction with a factor
    model.float()
    model.run_within = types.MethodType(lambda _, function: function(), model)
    register_fsdp_forward_method(model, "run_within")


def is_sharded(model: Any) -> bool:
    return isinstance(model, FSDPModule)


def within(model: Any, function: Callable[[], T]) -> T:
    """function(), while the weights that lie in no layer (embedding, last norm, head) are whole.

    For a pass that calls the model's parts instead of the model. Where it carries a gradient the function gives back a
    tensor or a tuple of them, and none that is a view. For a model that is not sharded nothing is done.
    """
    return model.run_within(function) if is_sharded(model) else function()


def local_rows(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """(this rank's rows of a parameter or gradient, in its own memory; the place of the first): all of a whole one."""
    if not isinstance(x, DTensor):
        return x.detach(), 0
    rows_per_rank = -(-x.shape[0] // parallel.size())  # as torch.chunk cuts
    local: torch.Tensor = x.detach().to_local()  # type: ignore[attr-defined]
    return local, min(parallel.rank() * rows_per_rank, x.shape[0])
