"""One run's configuration: what it is (`sections.py`) and how a tree of keys becomes it (`build.py`)."""

from harness.config.build import SECTIONS, ConfigError, build, known_keys, set_key
from harness.config.sections import (
    RESULT_VERSION,
    ArithmeticData,
    Critic,
    Data,
    Evaluate,
    Identity,
    JsonlData,
    Model,
    RunConfig,
    Runtime,
    Sampling,
    Train,
    Trick,
    Tricks,
    cell_id,
)

__all__ = [
    "RESULT_VERSION",
    "SECTIONS",
    "ArithmeticData",
    "ConfigError",
    "Critic",
    "Data",
    "Evaluate",
    "Identity",
    "JsonlData",
    "Model",
    "RunConfig",
    "Runtime",
    "Sampling",
    "Train",
    "Trick",
    "Tricks",
    "build",
    "cell_id",
    "known_keys",
    "set_key",
]
