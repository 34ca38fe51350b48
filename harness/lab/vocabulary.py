"""The laboratory's word-level tokenizer: one token per number, letter, operation and word.

In prompts an operation and its letter are one fused token (`c-2`). With two tokens a model of this size must first
discover how to look an operand up next to its letter, and stays at chance for hundreds of steps.
Leaves out: anything sub-word; every text of the laboratory is words between single spaces.
"""

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from harness.tasks.arithmetic import LETTERS, MAX_OPERAND, MAX_VALUE

PAD, END, UNKNOWN = "<|pad|>", "<|im_end|>", "<|unk|>"
WORDS = [*"Q=?A.,", "first", "then", "next", "now", "so", "and", "is", "gives", "makes", "the", "answer"]
WORDS += ["wait", "check", "hmm", "done", "again"]


def tokens() -> list[str]:
    """Every token in the order of its id."""
    operands = [f"{sign}{k}" for k in range(1, MAX_OPERAND + 1) for sign in "+-"]
    numbers = [str(n) for n in range(MAX_VALUE + 1)]
    slots = [letter + operand for letter in LETTERS for operand in operands]
    return [PAD, END, UNKNOWN, *WORDS, *numbers, *LETTERS, *operands, *slots]


def tokenizer() -> PreTrainedTokenizerFast:
    """Encodes without adding special tokens; `<|im_end|>` ends a response."""
    ids = {token: i for i, token in enumerate(tokens())}
    inner = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
