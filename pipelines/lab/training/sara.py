"""What learns in a stage of SARA: the compressor below a frozen language model, or an adapter above frozen vectors."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.answering.analyzer_label_scorer import Opening
from okralong.pipelines.lab.pictures import draw_curves
from okralong.pipelines.lab.training.analyzer import learned_words
from okralong.pipelines.lab.training.fit import (
    CHECKPOINTS,
    HISTORY,
    Learner,
    Say,
    begin_with,
    fit,
    save_adapter,
    with_adapter,
)
from okralong.pipelines.lab.training.run import CARD, CURVES
from okralong.pipelines.lab.training.sara_data import (
    Encode,
    InstructionConfig,
    Material,
    MixedExample,
    ReconstructionConfig,
    SaraConfig,
    Stage,
    StageConfig,
    alignment_examples,
    dealt,
    from_plain_to_rich,
    instruction_examples,
    prompt_of,
    reconstruction_examples,
)
from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.weights import EMBEDDED, available_cores, causal_model, resolve_embedding_model, text_ids
from okralong.pipelines.sara.artifact import DESCRIPTION, LORA, WEIGHTS, Shape, read_shape
from okralong.pipelines.sara.compressor import Compressor, token_scale
from okralong.pipelines.sara.generator import IGNORED, Row, chat_pieces, padded, row_of

LEAST_SHARED: Final = 8
"""Tokens that a batch must share to be worth a pass of their own; ours."""


class SaraLearner(Learner):
    """A ``Learner`` over ``MixedExample``: the loss is on the reply's tokens.

    ``model`` is a causal language model, or a PEFT model around one, whose adapter then learns instead of the
    compressor. ``base`` is what a config calls it; of a reply the first ``reply_tokens`` tokens are learned. ``right``
    is (n, 2): of each reply the tokens foretold, and all of them.
    """

    def __init__(
        self, model: Any, tokenizer: Any, compressor: Compressor, base: str, reply_tokens: int, in_order: bool = False
    ) -> None:
        super().__init__()
        self.model, self.compressor, self.in_order = model, compressor, in_order
        self.adapted = hasattr(model, "peft_config")
        compressor.requires_grad_(not self.adapted)
        self._tokenizer, self._base, self._reply_tokens = tokenizer, base, reply_tokens

    def collate(self, examples: Sequence[MixedExample]) -> dict[str, Any]:
        """See ``Learner``. ``labels`` are there for the trainer alone."""
        return {"labels": torch.zeros(len(examples), dtype=torch.long), "examples": list(examples)}

    def forward(self, labels: Tensor, examples: Sequence[MixedExample]) -> dict[str, Tensor]:
        """See ``Learner``; the loss is the mean over the reply tokens of the batch."""
        losses, right, row = self.token_losses(examples)
        counts = torch.zeros((len(examples), 2), dtype=torch.long, device=losses.device)
        counts[:, 0].index_add_(0, row, right.long())
        counts[:, 1].index_add_(0, row, torch.ones_like(row))
        return {"loss": losses.mean(), "right": counts}

    def token_losses(self, examples: Sequence[MixedExample]) -> tuple[Tensor, Tensor, Tensor]:
        """Of each reply token the negative log-likelihood, whether it was the likeliest, and the number of its row."""
        causal = self._causal()
        rows = self.rows(examples)
        shared = _shared(rows)
        embedding: nn.Embedding = causal.get_input_embeddings()
        batch = padded([_without(row, shared) for row in rows], embedding, "right")
        said, mask = batch.inputs(), batch.attention_mask
        if shared:
            # What all rows begin with is read once; with gradients only where they lead to something that learns.
            with nullcontext() if self.adapted and torch.is_grad_enabled() else torch.no_grad():
                opening = Opening.read(causal, list(rows[0].ids[:shared]))
            said["past_key_values"] = opening.cache_for(len(rows))
            said["attention_mask"] = torch.cat([mask.new_ones((len(rows), shared)), mask], dim=1)
            said["position_ids"] = batch.position_ids + shared
        states: Tensor = causal.model(**said, use_cache=bool(shared)).last_hidden_state
        row, at = (batch.labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
        # A contiguous 2-D tensor: sliced states would make the head copy its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        wanted = batch.labels[row, at + 1]
        return nn.functional.cross_entropy(logits, wanted, reduction="none"), logits.argmax(dim=1) == wanted, row

    def rows(self, examples: Sequence[MixedExample]) -> list[Row]:
        """The examples as a model reads them; gradients flow back through the compressor where that learns."""
        device = next(self.compressor.parameters()).device
        given = np.concatenate([each.embeddings for each in examples])
        vectors = list(self.compressor(torch.from_numpy(given).to(device))) if len(given) else []
        found, start = [], 0
        for each in examples:
            own = vectors[start : start + len(each.embeddings)]
            start += len(each.embeddings)
            pieces = chat_pieces(self._tokenizer, prompt_of(each, own))
            reply = text_ids(self._tokenizer, each.reply)
            if len(reply) < self._reply_tokens:
                reply.append(int(self._tokenizer.eos_token_id))
            found.append(row_of(self._tokenizer, pieces, reply[: self._reply_tokens]))
        return found

    @torch.inference_mode()
    def write(self, examples: Sequence[MixedExample]) -> list[str]:
        """A reply to each prompt, of the likeliest tokens, at most ``reply_tokens``."""
        causal, end = self._causal(), self._tokenizer.eos_token_id
        rows = [replace(row, ids=row.ids[: row.usage], targets=0) for row in self.rows(examples)]
        batch = padded(rows, causal.get_input_embeddings(), "left")
        written = causal.generate(
            inputs_embeds=batch.inputs_embeds,
            attention_mask=batch.attention_mask,
            max_new_tokens=self._reply_tokens,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=end,
        )
        texts: list[str] = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return texts

    def _causal(self) -> Any:
        return self.model.get_base_model() if self.adapted else self.model

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``: the share of reply tokens foretold."""
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}

    def save(self, folder: Path) -> None:
        """See ``Learner``: the compressor's two files, and the adapter's below ``lora`` where one learned."""
        self.compressor.save(folder)
        if self.adapted:
            save_adapter(self.model, self._base, folder / LORA)


def _shared(rows: Sequence[Row]) -> int:
    """With how many tokens all rows begin, up to the first vector; 0 where it is not worth a pass of its own."""
    most = min(min(row.places, default=row.usage) for row in rows)
    # The first target is foretold at the token before it, which must stay in the rows.
    most = min(most, *(row.usage - 1 for row in rows))
    size = next((at for at in range(most) if len({row.ids[at] for row in rows}) > 1), most)
    return size if size >= LEAST_SHARED and len(rows) > 1 else 0


def _without(row: Row, size: int) -> Row:
    return replace(row, ids=row.ids[size:], places=tuple(place - size for place in row.places))


# --------
# What the folders of a training say of themselves: a stage that has begun or is complete, and the config of it all.

DONE: Final = "stage.json"
"""Written last into a stage's folder: it is complete, and from what it was made."""

BEGUN: Final = "begun.json"
"""Written first: from what the stage is made, whose checkpoints stand below."""

TRAINED: Final = "training.json"
"""In the result's folder: the config that it is of, but for its figures."""


def is_done(folder: Path, made_from: str) -> bool:
    """Whether the stage is complete, and was made from that."""
    return _said(folder / DONE) == made_from


def begin_stage(folder: Path, made_from: str) -> None:
    """The folder of a stage that is to be trained. Checkpoints of one that was made from other things are deleted."""
    if _said(folder / BEGUN) != made_from:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DONE).unlink(missing_ok=True)
    (folder / BEGUN).write_text(json.dumps({"made_from": made_from}) + "\n", encoding="utf-8")


def end_stage(folder: Path, made_from: str) -> None:
    """Say that the stage is complete."""
    (folder / DONE).write_text(json.dumps({"made_from": made_from}) + "\n", encoding="utf-8")


def _said(file: Path) -> str | None:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["made_from"])
    except (OSError, ValueError, KeyError):
        return None


def is_trained_by(out: Path, config: SaraConfig) -> bool:
    """Whether ``out`` holds the result of this config, whatever figures either asks for."""
    try:
        return (out / TRAINED).read_text(encoding="utf-8") == _as_trained(config)
    except OSError:
        return False


def say_trained(out: Path, config: SaraConfig) -> None:
    """Say of which config ``out`` holds the result."""
    (out / TRAINED).write_text(_as_trained(config), encoding="utf-8")


def _as_trained(config: SaraConfig) -> str:
    # The name alone: a folder's path says more of a machine than of a training.
    named = config.model_copy(update={"model": Path(config.model).name, "encoder": Path(config.encoder).name})
    return named.model_dump_json(indent=1, exclude={"figures"}) + "\n"


# --------
# A whole training of SARA, stage after stage. A killed one goes on: finished stages stand, others have checkpoints.

COUNTS: Final = "counts.json"
"""Beside a stage's history: how many examples it was made from, of how many documents."""


@dataclass(frozen=True)
class Generator:
    """The frozen language model of a training, where it runs, and what a config calls it."""

    model: Any
    tokenizer: Any
    name: str
    device: str

    @classmethod
    def load(cls, name: str) -> Generator:
        """In bfloat16 on a GPU, else in what the processor is fast in. Raises ConfigError as ``causal_model`` does."""
        # Ray gives a task one thread unless told otherwise.
        device, dtype = settle("auto", "auto", available_cores())
        path = causal_model(name)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True)
        return cls(model.to(device).requires_grad_(False), AutoTokenizer.from_pretrained(path), name, device)

    def new_compressor(self, config: SaraConfig, inputs: int) -> Compressor:
        """An untrained compressor for it; the same seed gives the same."""
        encoder = resolve_embedding_model(config.encoder)
        embedding = self.model.get_input_embeddings().weight
        shape = Shape(
            inputs=inputs,
            width=config.width,
            hidden=int(embedding.shape[1]),
            vectors_per_chunk=config.vectors_per_chunk,
            encoder=EMBEDDED if config.encoder == EMBEDDED else encoder.name,
            encoder_sha256=encoder.sha256,
            generator=Path(config.model).name,  # a folder's path says more of a machine than of a model
            chunk_tokens=config.chunk_tokens,
        )
        torch.manual_seed(config.seed)
        return Compressor(shape, token_scale(embedding)).to(self.device)

    def adapted(self, stage: InstructionConfig, config: SaraConfig, start: Path | None = None) -> Generator:
        """The same with an adapter to learn, a new one or that of the folder ``start``. The model itself is changed."""
        lora = config.recipe(stage).lora
        assert lora is not None
        torch.manual_seed(config.seed)
        adapted = with_adapter(self.model, lora, task="CAUSAL_LM")
        if start is not None:
            begin_with(adapted, start)
        return Generator(adapted, self.tokenizer, self.name, self.device)


def train_stages(config: SaraConfig, train: Material, held: Material, encode: Encode, out: Path, say: Say) -> None:
    """Train all stages of ``config`` on ``train``, watched on ``held``, and write the result to ``out``.

    ``out`` then holds the compressor, the adapter below ``lora``, and a folder for each stage. Raises ConfigError when
    a model cannot be found, InputError when there is nothing to learn from.
    """
    generator = Generator.load(config.model)
    inputs = int(encode(["size"]).shape[1])
    compressor = generator.new_compressor(config, inputs)
    for name, stage in config.stages():
        folder = out / name
        learned, watched = (
            stage_examples(name, stage, config, material, encode, compressor, count)
            for material, count in ((train, stage.examples), (held, stage.validation))
        )
        say(f"{name}: {len(learned):,} examples, {len(watched):,} held out")
        made_from = _digest(config, name, stage, compressor, (*learned, *watched))
        if not is_done(folder, made_from):
            begin_stage(folder, made_from)
            in_order = name == "alignment" and config.curriculum
            on = generator.adapted(stage, config) if isinstance(stage, InstructionConfig) else generator
            learner = SaraLearner(on.model, on.tokenizer, compressor, config.model, stage.reply_tokens, in_order)
            recipe = config.recipe(stage)
            fit(learner.to(generator.device), recipe, learned, watched, folder, generator.device, say)
            counts = {
                "train": len(learned),
                "documents": len({e.document for e in learned}),
                "validation": len(watched),
            }
            (folder / COUNTS).write_text(json.dumps(counts) + "\n", encoding="utf-8")
            end_stage(folder, made_from)
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        say(f"{name}: {_last_evaluation(folder)}")
        # From the files, as an interrupted training does: float16 rounds.
        compressor = Compressor.load(folder).to(generator.device)
    _gather(out, config)


def stage_examples(
    name: Stage,
    stage: StageConfig,
    config: SaraConfig,
    material: Material,
    encode: Encode,
    compressor: Compressor,
    count: int,
) -> list[MixedExample]:
    """At most ``count`` examples of a stage, in the order in which they are learned."""
    if isinstance(stage, InstructionConfig):
        chosen_by = compressor if config.reranking and config.compression else None
        asked, as_text = dealt(material.asked(stage, config), stage.as_text, count)
        return instruction_examples(asked, encode, as_text, chosen_by, config.compression)
    documents = material.documents(config.chunk_tokens)
    if isinstance(stage, ReconstructionConfig):
        return reconstruction_examples(documents, encode, count, stage.chunks, config.seed)
    found = alignment_examples(documents, encode, count, config.seed)
    return from_plain_to_rich(found) if config.curriculum else found


def _digest(
    config: SaraConfig, name: Stage, stage: StageConfig, compressor: Compressor, examples: Sequence[MixedExample]
) -> str:
    said = f"{name} {config.model} {stage.model_dump_json()} {config.seed} {config.curriculum}"
    digest = hashlib.sha256(said.encode())
    digest.update(f"{compressor.shape} {compressor.fingerprint}".encode())
    for each in examples:
        digest.update(repr(each).encode())
    return digest.hexdigest()


def _last_evaluation(folder: Path) -> str:
    history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))["history"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    return "no evaluation" if not losses else f"loss on validation {losses[0]:.3f} first, {min(losses):.3f} at best"


def _gather(out: Path, config: SaraConfig) -> None:
    """The result of the last stage, at the top of ``out``."""
    last, stage = config.stages()[-1]
    for file in (WEIGHTS, DESCRIPTION):
        shutil.copyfile(out / last / file, out / file)
    if isinstance(stage, InstructionConfig):
        shutil.rmtree(out / LORA, ignore_errors=True)
        shutil.copytree(out / last / LORA, out / LORA)
    say_trained(out, config)


# --------
# The card of a trained SARA, and the course of its training as one picture.


def write_card(out: Path, config: SaraConfig) -> None:
    """Write card, history and curves of the stages below ``out``."""
    histories: dict[str, list[dict[str, float]]] = {}
    for name, _ in config.stages():
        histories[name] = _history(out / name / HISTORY)
    (out / HISTORY).write_text(json.dumps(histories, indent=1) + "\n", encoding="utf-8")
    draw_curves(histories, out / CURVES)
    (out / CARD).write_text(sara_card(out, config, histories), encoding="utf-8")


def sara_card(out: Path, config: SaraConfig, histories: Mapping[str, list[dict[str, float]]]) -> str:
    """The card as Markdown: what it is, what each stage learned from, what validation said."""
    shape, fingerprint = read_shape(out)
    base = "SmolLM2-135M-Instruct" if config.model == "embedded" else Path(config.model).name
    encoder = "all-MiniLM-L6-v2" if config.encoder == "embedded" else Path(config.encoder).name
    sets = [f"{each.name} {each.part}" for each in config.texts.sets]
    sets += ["made-up reports"] if config.texts.sample else []
    off = {
        "compression (SARA-C)": config.compression,
        "reconstruction (SARA-P)": config.reconstruction,
        "reranking (SARA-R)": config.reranking,
        "curriculum (SARA-L)": config.curriculum,
        "instruction tuning (SARA-I)": config.instruction and config.instruction.learned,
    }
    without = [name for name, on in off.items() if not on]
    sections = [
        "# A trained SARA of okralong",
        f"Made by `okralong train-sara`. A compressor ({shape.inputs} -> {shape.width} -> {shape.hidden} x "
        f"{shape.vectors_per_chunk}) from the sentence embeddings of {encoder} to the token embeddings of {base}, "
        f"fingerprint `{fingerprint}`, for chunks of at most {shape.chunk_tokens} tokens at sentences. Seed "
        f"{config.seed}. Texts and questions of the train side of the split: {', '.join(sets)}."
        + (f" Without {', '.join(without)}." if without else ""),
    ]
    for name, stage in config.stages():
        counted = json.loads((out / name / COUNTS).read_text(encoding="utf-8"))
        learned = "the compressor, below the frozen generator"
        if isinstance(stage, InstructionConfig):
            learned = f"{learned_words(config.recipe(stage))}, above the frozen compressor"
        evaluations = [entry for entry in histories[name] if "eval_loss" in entry]
        best = min(evaluations, key=lambda entry: entry["eval_loss"])
        epochs = "epoch" if stage.epochs == 1 else "epochs"
        sections.append(
            f"**{name.capitalize()}**: {learned}. {counted['train']:,} examples of {counted['documents']:,} documents, "
            f"{stage.epochs:g} {epochs}, batches of {stage.batch_size} x {stage.accumulation}, learning rate "
            f"{stage.learning_rate:g}; the first {stage.reply_tokens} tokens of a reply are learned. On "
            f"{counted['validation']:,} held-out examples: loss {evaluations[0]['eval_loss']:.3f} at the first "
            f"evaluation, {best['eval_loss']:.3f} at the best one, which was kept; "
            f"{best['eval_token_accuracy']:.1%} of the tokens foretold."
        )
    return "\n\n".join(sections) + "\n"


def _history(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["history"]
    return found
