"""LoRA: small trained matrices beside every linear map of a frozen model.

    y = W x + (alpha / rank) · B A x,  A [rank, in] random by seed, B [out, rank] zero at first

so that the first policy is the model as loaded. No dropout: the ratio has to be 1 before the first update. The head
and the embeddings stay as they are. Needs the extra `lora` (peft), imported only when a run asks for adapters. Leaves
out: adapter files, other kinds of adapters. Ref: arXiv:2106.09685.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

ADAPTER = "default"


def add(model: Any, rank: int, alpha: float, seed: int) -> None:
    """Puts adapters into the model in place; they alone take gradients afterwards.

    Raises ImportError with the cure where peft is not installed.
    """
    try:
        import peft
    except ImportError as error:
        raise ImportError("model.lora_rank: adapters need peft; pip install -e '.[lora]', or lora_rank=0") from error
    # fork_rng: whether a run has adapters must not move any other random number.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = peft.LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear")
        peft.inject_adapter_in_model(settings, model, ADAPTER)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)


@torch.no_grad()
def merged(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Every parameter under the name it had before `add`, whole and with its adapter added in fp32.

    Without adapters these are the parameters themselves. Sharded ones are gathered one at a time, which all ranks have
    to do together.
    """
    adapted = {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            continue
        owner, _, leaf = name.rpartition(".base_layer.")
        value = _whole(parameter)
        if owner and leaf == "weight":
            layer = adapted[owner]
            down, up = (_whole(part[ADAPTER].weight).float() for part in (layer.lora_A, layer.lora_B))
            value = (value.float() + layer.scaling[ADAPTER] * (up @ down)).to(value.dtype)
        yield f"{owner}.{leaf}" if owner else name, value


def _whole(parameter: Tensor) -> Tensor:
    gather = getattr(parameter, "full_tensor", None)  # of a sharded one
    return parameter.detach() if gather is None else gather().detach()
