"""A question writer, trained for real on a tiny model: what it learns, what it writes, and where it goes on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from okralong.lab.training.learners import question_writer
from okralong.lab.training.learners.fit import train_session
from okralong.lab.training.learners.question_writer import QuestionWriterLearner, write_questions
from okralong.lab.training.recipe import Recipe
from okralong.lab.training.rows.question_writer_rows import (
    NOTHING,
    Passages,
    WrittenConfig,
    WrittenQuestion,
    prompt,
    read_passages,
    read_written,
    write_passages,
    writer_examples,
    written_in,
)
from okralong.lab.training.rows.tables import RankingRow
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ConfigError, InputError
from tests.fakes.tiny_llama import write_tiny_llama

PASSAGE = "The head office is in Alder, as it was in 1900. Its mill stands by the river."
ROW = RankingRow(
    query_id="q1",
    source="squad dev",
    documents=("d",),
    question="Where is the head office?",
    passages=("Nothing of it stands here.", PASSAGE, "An office."),
    relevance=(0.0, 1.0, 0.6),
    answerable=(0, 1, 0),
    starts=(-1, PASSAGE.index("Alder"), -1),
    ends=(-1, PASSAGE.index("Alder") + 5, -1),
)


@pytest.fixture(scope="module")
def config() -> WrittenConfig:
    return load_config(WrittenConfig, "training/written.yaml")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a tiny model, until it says the same question of everything."""
    model = write_tiny_llama(tmp_path_factory.mktemp("tiny"), window=512, spread=0.3)
    recipe = Recipe(
        kind="question_writer",
        model=str(model),
        learning_rate=0.01,
        epochs=12,
        batch_size=4,
        accumulation=1,
        patience=60,
    )
    out = tmp_path_factory.mktemp("writer")
    said = [f"{PASSAGE} {number}" for number in range(24)]
    rows = [replace(ROW, passages=(text,) * 3, starts=(-1, -1, -1), ends=(-1, -1, -1)) for text in said]
    train_session(recipe, rows, rows[:2], out)
    return out


def test_what_is_learned_is_read_back_from_the_reply(config: WrittenConfig) -> None:
    (example,) = writer_examples([ROW], config)
    assert example.user == prompt("squad", PASSAGE)
    assert written_in(example.reply, "squad", PASSAGE) == WrittenQuestion("squad", PASSAGE, "Alder", ROW.question)
    (placeless,) = writer_examples([replace(ROW, starts=(-1, -1, -1), ends=(-1, -1, -1))], config)
    assert placeless.reply.startswith(f"Answer: {NOTHING}\n")
    assert written_in(placeless.reply, "squad", PASSAGE) == WrittenQuestion("squad", PASSAGE, "", ROW.question)
    yes = written_in("Answer: Yes\nQuestion: Is the head office in Alder?", "squad", PASSAGE)
    assert yes == WrittenQuestion("squad", PASSAGE, "", "Is the head office in Alder?")
    assert writer_examples([replace(ROW, source="sample 3000"), replace(ROW, relevance=(0.0, 0.3, 0.0))], config) == []


@pytest.mark.parametrize(
    "reply",
    [
        "Where is the head office?",
        "Answer: Alder",
        "Answer: Alder\nQuestion: ",
        "Answer: Alder\nQuestion: Where is\nthe head office?",
        "Answer: Birch\nQuestion: Where is the head office?",
        "Answer: lder\nQuestion: Where is the head office?",
        "Answer: 19\nQuestion: In which year was the office there?",
        "Answer: \nQuestion: Where is the head office?",
        "Answer: Alder\nQuestion: Where is it?",
        f"Answer: Alder\nQuestion: Where {'on earth ' * 40}is it?",
    ],
)
def test_a_reply_that_is_no_question_about_the_passage_is_left_out(reply: str) -> None:
    assert written_in(reply, "squad", PASSAGE) is None


def test_the_loss_is_on_the_reply_alone(writer: Path, config: WrittenConfig) -> None:
    learner = QuestionWriterLearner(str(writer), "cpu", torch.float32)
    (example,) = writer_examples([ROW], config)
    longer = replace(example, user=f"{example.user} And more of it.")
    batch = learner.collate([example, longer])
    for row in range(2):
        ids, labels = batch["input_ids"][row], batch["labels"][row]
        assert learner.tokenizer.decode(ids[labels >= 0]) == example.reply + learner.tokenizer.eos_token
    with torch.no_grad():
        together = learner(**batch)
        alone = learner(**learner.collate([example]))
    assert together["right"][0].tolist() == alone["right"][0].tolist()
    assert alone["right"][0, 1] == (batch["labels"][0] >= 0).sum()


def test_passages_that_were_copied_by_half_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passages = tmp_path / "passages.json"
    write_passages(passages, Passages({PASSAGE: {"squad": 1}}, None))
    assert read_passages(passages).passages == {PASSAGE: {"squad": 1}}
    passages.write_text(passages.read_text()[:-20])
    assert question_writer.main([str(tmp_path / "writer"), str(passages), str(tmp_path / "written.jsonl")]) == 2
    assert "passages.json is not what" in capsys.readouterr().err


def test_it_writes_questions_and_goes_on_where_it_was_killed(
    writer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_writer, "BATCH", 4)
    passages = {f"{PASSAGE} {number}": {"squad": 1, "musique": 1} for number in range(6)}
    file = tmp_path / "written.jsonl"
    said: list[str] = []
    write_questions(writer, passages, None, file, said.append)
    assert len(said) == 3
    whole, found = file.read_text(), read_written(file)
    assert found
    assert {each.question for each in found} == {ROW.question}
    assert {each.kind for each in found} <= {"squad", "musique"}
    assert {each.passage for each in found} <= passages.keys()

    lines = whole.splitlines(keepends=True)
    second = [number for number, line in enumerate(lines) if line.startswith('{"batch"')][2]
    file.write_text("".join(lines[: second + 2]) + '{"kind": "squ')
    write_questions(writer, passages, None, file, said.append)
    assert len(said) == 4
    assert file.read_text() == whole
    write_questions(writer, passages, None, file, said.append)
    assert len(said) == 4

    some = tmp_path / "some.jsonl"
    write_questions(writer, passages, 5, some, said.append)
    assert some.read_text() == "".join(lines[: second + 1])
    others = {passage + " Again.": ask for passage, ask in passages.items()}  # as many
    (tmp_path / "mine.txt").write_text("Notes of my own, which nobody is to lose: " + "and so on. " * 9)
    (tmp_path / "short.txt").write_text("Mine.")
    for file in (some, tmp_path / "mine.txt", tmp_path / "short.txt"):
        with pytest.raises(InputError, match="begun for other passages, or is not a file of written questions"):
            write_questions(writer, others, None, file, said.append)
    assert (tmp_path / "mine.txt").read_text().startswith("Notes of my own")
    assert (tmp_path / "short.txt").read_text() == "Mine."
    with pytest.raises(ConfigError, match="cannot be loaded"):
        write_questions(tmp_path, passages, None, tmp_path / "new.jsonl", said.append)


def test_a_reply_that_is_cut_off_is_left_out(writer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_writer, "LONGEST_REPLY", 9)
    write_questions(writer, {PASSAGE: {"squad": 4}}, None, tmp_path / "written.jsonl", lambda _: None)
    assert read_written(tmp_path / "written.jsonl") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "squad"}',
        "no JSON",
        '{"kind": "squad", "passage": "A mill.", "answer": "", "question": null}',
        '{"kind": "squad", "passage": "A mill.", "answer": "hill", "question": "What is it?"}',
    ],
)
def test_a_line_that_is_no_question_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "written.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"written\.jsonl, line 1: is not a written question"):
        read_written(tmp_path / "written.jsonl")


def test_it_writes_where_neither_parquet_nor_ray_is(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['pyarrow', 'ray', 'bm25s', 'faiss']))"
    module = "okralong.lab.training.learners.question_writer"
    done = subprocess.run(
        [sys.executable, "-c", f"{blocked}; from {module} import main; sys.exit(main(['one']))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split(":")[0]) == (2, "Give three paths"), done.stderr
