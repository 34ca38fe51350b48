"""Facts and styles of the corpus, and the tokenizer that reads them."""

import numpy as np
import pytest

from harness.lab import corpus
from harness.lab.vocabulary import END, UNKNOWN, tokenizer, tokens
from harness.tasks import arithmetic

OPERATIONS = [3, -5, 4, 1, -2]
START = 9
FACTS = [(v, k) for v in range(20) for k in range(-5, 6) if k and 0 <= v + k <= 19]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(0))


def test_facts_are_split_as_stated_and_a_habit_is_never_right() -> None:
    kinds = [corpus.habit(v, k)[0] for v, k in FACTS]
    assert len(FACTS) == 170
    assert {kind: kinds.count(kind) for kind in kinds} == {"solid": 100, "shaky": 59, "stubborn": 11}
    assert all(corpus.habit(v, k)[2] != v + k and 0 <= corpus.habit(v, k)[2] <= 19 for v, k in FACTS)


def test_error_rates_are_those_of_the_kind(rng: np.random.Generator) -> None:
    errors = corpus.Errors(solid=0.0, shaky=(0.5, 0.5), hasty=0.3, stubborn=(1.0, 1.0), slip=0.0)

    def wrong(kind: str, hasty: bool) -> float:
        chosen = [(v, k) for v, k in FACTS if corpus.habit(v, k)[0] == kind]
        return float(np.mean([corpus.state(rng, v, k, errors, hasty) != v + k for v, k in chosen * 40]))

    assert wrong("solid", False) == wrong("solid", True) == 0.0
    assert wrong("stubborn", False) == 1.0
    assert wrong("shaky", False) == pytest.approx(0.5, abs=0.04)
    assert wrong("shaky", True) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("style", [corpus.direct, corpus.terse, corpus.verbose, corpus.careful])
def test_without_errors_every_answering_style_is_right(rng: np.random.Generator, style: corpus.Style) -> None:
    words, ends = style(rng, START, OPERATIONS, corpus.CLEAN)
    assert ends
    assert arithmetic.grade(" ".join(words), str(START + sum(OPERATIONS))) == "right"


def test_styles_that_fail_do_so_as_named(rng: np.random.Generator) -> None:
    words, ends = corpus.unanswered(rng, START, OPERATIONS, corpus.CLEAN)
    assert ends and arithmetic.grade(" ".join(words), "10") == "unparsable"
    words, ends = corpus.loop(rng, START, OPERATIONS, corpus.CLEAN)
    assert not ends and len(words) == corpus.LOOP_WORDS and "answer" not in words


def test_an_error_is_carried_through_the_chain(rng: np.random.Generator) -> None:
    value, k = next((v, k) for v, k in FACTS if corpus.habit(v, k)[0] == "stubborn")
    errors = corpus.Errors(solid=0.0, shaky=(0.0, 0.0), hasty=0.0, stubborn=(1.0, 1.0), slip=0.0)
    words, _ = corpus.terse(rng, value, [k], errors)
    assert words == ["a", str(corpus.habit(value, k)[2]), ".", "answer", str(corpus.habit(value, k)[2])]


def test_every_word_of_the_laboratory_is_one_token(rng: np.random.Generator) -> None:
    words = tokenizer()
    prompt = arithmetic.prompt(START, OPERATIONS)
    texts = [" ".join(style(rng, START, OPERATIONS, corpus.BASE)[0]) for style in corpus.BASE_STYLES] + [prompt]
    for text in texts:
        ids = words.encode(text, add_special_tokens=False)
        assert len(ids) == len(text.split(" ")) and words.unk_token_id not in ids
        assert words.decode(ids) == text
    assert words.encode(prompt) == words.encode(prompt, add_special_tokens=False)
    assert words.eos_token == END and words.unk_token == UNKNOWN and len(words) == len(tokens())
