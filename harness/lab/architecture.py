"""The two miniature architectures: real Qwen3 models, small enough that a CPU core trains one in a minute or two."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from harness.lab.vocabulary import END, PAD, tokens

HEAD_DIM = 32  # the smallest that vLLM's CPU kernels take
QK_NORM_START = 1.8  # at 1.0 and this head size the attention logits are capped too low to become sharp

# size -> (hidden size, inner size, layers, heads)
SIZES = {"small": (64, 160, 2, 2), "large": (96, 256, 3, 3)}


def fresh(size: str, seed: int) -> Qwen3ForCausalLM:
    """A newly initialised model of a size; the same for the same seed."""
    vocabulary = tokens()
    hidden, inner, layers, heads = SIZES[size]
    config = Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=HEAD_DIM,
        tie_word_embeddings=True,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        eos_token_id=vocabulary.index(END),
        pad_token_id=vocabulary.index(PAD),
        bos_token_id=None,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        for name, parameter in model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                torch.nn.init.constant_(parameter, QK_NORM_START)
            elif parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)
    return model
