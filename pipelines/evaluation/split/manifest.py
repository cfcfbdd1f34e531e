"""The manifest file: one Parquet row a key, 5 bytes each, with what it was made from in its metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import SPLIT
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.evaluation.split.keys import SIDES, Side
from okralong.pipelines.evaluation.split.sides import Sides

MANIFEST: Final = "split/manifest.parquet"
"""The shipped manifest, among the configs."""

_PREFIX: Final = b"okralong.split."


def write_manifest(file: Path, sides: Sides, about: Mapping[str, str]) -> None:
    """Write ``sides``; ``about`` goes into the file's metadata. The same values make the same bytes."""
    kinds: dict[str, Mapping[str, Side]] = {
        "question": sides.questions,
        "document": sides.documents,
        "text": sides.texts,
    }
    rows = [(kind, side, key) for kind, by_key in kinds.items() for key, side in by_key.items()]
    rows.sort(key=lambda row: (list(kinds).index(row[0]), SIDES.index(row[1]), row[2]))
    columns = [[kind for kind, _, _ in rows], [side for _, side, _ in rows], [bytes.fromhex(k) for _, _, k in rows]]
    said = {_PREFIX + name.encode(): value.encode() for name, value in about.items()}
    table = pa.table(columns, schema=SPLIT.with_metadata({**SPLIT.metadata, **said}))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, compression="zstd", compression_level=19, use_dictionary=["kind", "side"])


def read_manifest(source: str | Path = MANIFEST) -> tuple[Sides, dict[str, str]]:
    """The sides and what the file says of itself. Raises ConfigError for no such file, or none of this version."""
    path = Path(source)
    shipped = resources.files("okralong.configs").joinpath(str(source))
    if not path.is_file() and not shipped.is_file():
        raise ConfigError(f"There is no split manifest {source}. Make one with `okralong split DATA --out DIR`.")
    try:
        table = pq.read_table(io.BytesIO(path.read_bytes() if path.is_file() else shipped.read_bytes()))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{source} is no Parquet file: {error}. Make it again with `okralong split`.") from error
    metadata = table.schema.metadata or {}
    if not table.schema.equals(SPLIT) or any(metadata.get(name) != value for name, value in SPLIT.metadata.items()):
        raise ConfigError(f"{source} is no split manifest of this version. Make it again with `okralong split`.")
    by_kind: dict[str, dict[str, Side]] = {"question": {}, "document": {}, "text": {}}
    names = {name: name for name in get_args(Side)}
    for kind, side, key in zip(*(table[column].to_pylist() for column in SPLIT.names), strict=True):
        if by_kind[kind].setdefault(key.hex(), names[side]) != side:
            raise ConfigError(f"{source}: the {kind} {key.hex()} stands on two sides. Make the manifest again.")
    about = {k[len(_PREFIX) :].decode(): v.decode() for k, v in metadata.items() if k.startswith(_PREFIX)}
    return Sides(by_kind["question"], by_kind["document"], by_kind["text"]), about
