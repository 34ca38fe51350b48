"""What a raw data set looks like: one file `experiments/data/source/ROLE.yaml` per benchmark and training set.

Finds its rows in a local file or in a repository of the Hugging Face hub and reads question, answer and difficulty out
of them. Leaves out: which rows are kept (`clean.py`, `prepare.py`).
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.tasks import answers, rows
from harness.tricks import nearest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "data" / "source"


class Source(BaseModel):
    """Where a data set's rows are and which fields matter. Of several field names the first that a row has counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["benchmark", "training"]
    path: str = ""  # a local file, if there is one
    hub: str = ""
    files: str = "*"  # which of the hub repository's files
    question: str | list[str] = "question"
    answer: str | list[str] = "answer"
    difficulty: str = ""  # a field with a number, more is harder
    read: Literal["as_is", "boxed", "hashes", "first"] = "as_is"  # how the answer stands in its field
    rows: Annotated[int, Field(ge=0)] = 0  # how many a benchmark is known to have
    samples: Annotated[int, Field(ge=1)] = 1  # of each question that a sensible evaluation takes
    draw: Literal["random", "easiest", "proportional"] = "random"
    size: Annotated[int, Field(ge=0)] = 0  # rows to draw; 0 = all
    true_false_share: Annotated[float, Field(ge=0, le=1)] = 1.0  # most that may have such an answer

    @model_validator(mode="after")
    def _drawable(self) -> "Source":
        if self.draw != "random" and not self.difficulty:
            raise ValueError(f"draw: {self.draw} needs `difficulty`, the name of the field that says how hard a row is")
        return self


@dataclass(frozen=True)
class Item:
    """One row as far as it could be read; `answer` and `question` are '' and `difficulty` None where it could not."""

    question: str
    answer: str
    difficulty: float | None = None


def load(folder: Path) -> dict[str, Source]:
    """role -> source, of every file of the folder. Raises ValueError naming file and key."""
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            found[path.stem] = Source.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"][:1])
            close = nearest(key, Source.model_fields) if first["type"] == "extra_forbidden" else ""
            said = "no such key" if close or first["type"] == "extra_forbidden" else first["msg"]
            raise ValueError(f"{path}: {f'{key}: ' if key else ''}{said}{close}") from None
    return found


def place(source: Source, given: str | None) -> list[Path]:
    """The files of a data set: `given` (a file or a hub id), else the source's own file, else its hub repository.

    Raises FileNotFoundError when there is none or the hub cannot be reached.
    """
    for path in (given, source.path):
        if path and Path(path).is_file():
            return [Path(path)]
    hub = given or source.hub
    if given and not _is_hub_id(given):
        raise FileNotFoundError(f"no file '{given}'")
    if not hub:
        raise FileNotFoundError("no file and no hub repository given")
    return _download(hub, source.files if hub == source.hub else "*")


def _is_hub_id(text: str) -> bool:
    return text.count("/") == 1 and not text.startswith((".", "/", "~")) and Path(text).suffix not in rows.KINDS


def _download(hub: str, pattern: str) -> list[Path]:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub, repo_type="dataset", allow_patterns=pattern))
    except Exception as error:  # a dozen kinds: no network, no such repository, no permission
        raise FileNotFoundError(f"hub repository '{hub}': {type(error).__name__}") from None
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.match(pattern))
    data = [path for path in found if path.suffix in (".jsonl", ".parquet")]
    readable = data or [path for path in found if path.suffix in rows.KINDS]  # a .json beside data describes it
    if not readable:
        raise FileNotFoundError(f"hub repository '{hub}': no JSON-lines or Parquet file among '{pattern}'")
    return readable


def items(source: Source, files: list[Path]) -> list[Item]:
    """Every row of the files. Raises ValueError naming the place where a field that is asked for is missing."""
    wanted = [*_names(source.question), *_names(source.answer), *([source.difficulty] if source.difficulty else [])]
    return [_item(source, where, row) for file in files for where, row in rows.read(file, wanted)]


def _item(source: Source, where: str, row: Any) -> Item:
    question = _first(where, row, source.question)
    answer = _answer(_first(where, row, source.answer), source.read)
    level = rows.field(where, row, source.difficulty) if source.difficulty else None
    return Item("" if question is None else str(question).strip(), answer, _float(level))


def _first(where: str, row: Any, names: str | list[str]) -> Any:
    *others, last = _names(names)
    for name in others:
        try:
            return rows.field(where, row, name)
        except ValueError:
            continue
    return rows.field(where, row, last)


def _names(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _answer(value: Any, read: str) -> str:
    """The reference answer as text, '' where there is none. A list given as text is a list."""
    if read == "first" and isinstance(value, str) and value.startswith("["):
        value = ast.literal_eval(value)
    if read == "first" and isinstance(value, list | tuple):
        value = value[0] if value else ""
    text = "" if value is None else str(value).strip()
    if read == "hashes":
        return text.rsplit("####", 1)[1].strip() if "####" in text else ""
    if read == "boxed" and "\\boxed" in text:  # a field that holds the bare answer is taken as it is
        return (answers.last_boxed(text) or "").strip()
    return text


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
