"""Run a question writer over the passages of the train side, or export the passages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from okralong.lab.training.rows.cross_encoder_rows import RankingConfig, passages_to_ask_about
from okralong.lab.training.rows.question_writer_rows import WrittenQuestion, read_written, write_passages
from okralong.pipelines.core.types import ConfigError

if TYPE_CHECKING:
    from okralong.lab.training.learners.fit import Say


PASSAGES: Final = "passages.json"
WRITTEN: Final = "written.jsonl"
"""Files next to the rows: the passages to ask about, and the written questions, from which a killed writer resumes."""


def written_questions(
    config: RankingConfig, data: Path, work: Path, out: Path, writer: Path, export: bool, say: Say
) -> list[WrittenQuestion]:
    """Return the questions of ``writer`` about the train side's passages. With ``export``, only write the passages.

    Raises ConfigError, before any set is read, if there is no such writer.
    """
    if not export and not (writer / "config.json").is_file():
        raise ConfigError(
            f"{writer} holds no question writer. Give the folder that `okralong train training/question_writer.yaml` "
            "wrote."
        )
    asked = passages_to_ask_about(config, data, work, say)
    wanted = sum(sum(ask.values()) for ask in asked.passages.values())
    said = "all" if asked.questions is None else f"about {asked.questions:,}"
    say(f"{len(asked.passages):,} passages, {wanted:,} questions, of which {said} are written")
    if export:
        write_passages(out / PASSAGES, asked)
        command = "python -m okralong.lab.training.learners.question_writer"
        say(
            f"written: {out / PASSAGES}. `{command} {writer} {PASSAGES} {WRITTEN}` writes the questions; put "
            "them next to it."
        )
        return []
    from okralong.lab.training.learners.question_writer import write_questions

    out.mkdir(parents=True, exist_ok=True)
    write_questions(writer, asked.passages, asked.questions, out / WRITTEN, say)
    return read_written(out / WRITTEN)
