"""Content hashes of what a run reads: model folders and data files. Equal content is the same run, whatever its path.

A path is tried as given, then relative to the repository, then to what a snapshot was taken from. Leaves out:
downloading a hub model, which the core does.
"""

import functools
import hashlib
import re
from pathlib import Path

from harness.config import ConfigError
from harness.store import roots

MODEL_FILES = ("config.json", "generation_config.json", "tokenizer*.json", "*.safetensors")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def locate(path: str) -> Path | None:
    """The path as given or under the repository, whichever exists first."""
    return next((found for found in (Path(path), *(root / path for root in roots())) if found.exists()), None)


@functools.cache
def model(path: str) -> tuple[str, str]:
    """(path to store, content) of a model folder: a sha256 over MODEL_FILES, or hub:org/name.

    A folder inside the repository keeps its relative path, any other becomes absolute. Raises ConfigError.
    """
    found = locate(path)
    if found and (found / "config.json").is_file():
        inside = any((root / path).exists() for root in roots()) and not Path(path).is_absolute()
        return path if inside else str(found.resolve()), _folder_hash(found)
    if found is None and _HUB_ID.fullmatch(path) and locate(path.split("/")[0]) is None:
        return path, f"hub:{path}"
    what = "that folder has no config.json" if found else "no such model folder"
    raise ConfigError(
        [
            (
                "model.path",
                f"'{path}': {what}; make the miniature models with `python -m harness lab build`, "
                "or give a hub-format folder with model.path=FOLDER",
            )
        ]
    )


@functools.cache
def data(path: str) -> tuple[str, str]:
    """(absolute path, sha256 of the file); the content of a missing file is `missing:<path>`."""
    found = locate(path)
    if found is None or not found.is_file():
        return path, f"missing:{path}"
    return str(found.resolve()), _file_hash(found)


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted({file for pattern in MODEL_FILES for file in folder.glob(pattern)}):
        digest.update(f"{file.name} {_file_hash(file)}\n".encode())
    return digest.hexdigest()


def _file_hash(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
