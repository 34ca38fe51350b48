"""What is promised of the miniature models: sizes, and the accuracies they start from.

A rebuild on another machine gives other weights in the last digits and must land in these bands, which are wide
enough for the binomial error of 400 samples. Leaves out: what runs make of the models (docs/lab.md).
"""

MAX_BYTES = 6_000_000  # all four folders together
PARAMETERS = {"small": 105_216, "large": 348_480}

# role -> difficulty -> (lowest, highest) held-out accuracy at temperature 1
START: dict[str, dict[str, tuple[float, float]]] = {
    "small_base": {"easy": (0.22, 0.42), "medium": (0.10, 0.25), "hard": (0.05, 0.18)},
    "small_aligned": {"easy": (0.72, 0.90), "medium": (0.50, 0.72), "hard": (0.42, 0.68)},
    "large_base": {"easy": (0.22, 0.42), "medium": (0.10, 0.25), "hard": (0.05, 0.18)},
    "large_aligned": {"easy": (0.72, 0.90), "medium": (0.50, 0.72), "hard": (0.42, 0.68)},
}

# Mean over difficulties of the share of truncated responses at the start.
TRUNCATED = {"base": (0.03, 0.12), "aligned": (0.0, 0.03)}
