"""One run's configuration: what it is (`sections.py`) and how a tree of keys becomes it (`build.py`)."""

from harness.config.build import SECTIONS, SITE_KEYS, ConfigError, build, known_keys, set_key
from harness.config.hardware import Hardware
from harness.config.sections import (
    NAMES,
    RESULT_VERSION,
    ArithmeticData,
    Critic,
    Data,
    Evaluate,
    Identity,
    JsonlData,
    Launcher,
    Model,
    RunConfig,
    Runtime,
    Sampling,
    Train,
    Trick,
    Tricks,
    cell_id,
)
from harness.tricks import nearest

__all__ = [
    "NAMES",
    "RESULT_VERSION",
    "SECTIONS",
    "SITE_KEYS",
    "ArithmeticData",
    "ConfigError",
    "Critic",
    "Data",
    "Evaluate",
    "Hardware",
    "Identity",
    "JsonlData",
    "Launcher",
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
    "nearest",
    "set_key",
]
