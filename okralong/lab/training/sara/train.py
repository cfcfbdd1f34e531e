"""Train SARA stage by stage: first the compressor, with a frozen language model, then an adapter of the model.

xRAG (Cheng et al. 2024) is the same without the adapter: its projector learns in both of its stages, paraphrase
pretraining (here: alignment) and context-aware instruction tuning. ICAE (Ge et al. 2024) has another compressor, memory
slots. It is pretrained to reproduce a chunk's text and the text after it, then tuned.

A killed training can be resumed: finished stages are kept, and an unfinished one continues from its last checkpoint.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.training.learners.fit import CHECKPOINTS, HISTORY, Say, digest_of, fit, quiet, write_card
from okralong.lab.training.learners.learner import Learner, Log, evaluations_of
from okralong.lab.training.learners.lora import begin_with, reply_counts, save_adapter, shared_size, with_adapter
from okralong.lab.training.sara.config import InstructionConfig, ReconstructionConfig, SaraConfig, StageConfig
from okralong.lab.training.sara.examples import (
    Material,
    MixedExample,
    alignment_examples,
    dealt,
    instruction_examples,
    prompt_of,
    reconstruction_examples,
)
from okralong.pipelines.answering.analyzers.label_scorer import Opening
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SAFE,
    Precision,
    available_cores,
    causal_model,
    resolve_embedding_model,
    settle,
    text_ids,
)
from okralong.pipelines.sara.artifact import (
    DESCRIPTION,
    LORA,
    WEIGHTS,
    AnyShape,
    Encode,
    MemoryShape,
    Shape,
    read_shape,
)
from okralong.pipelines.sara.compressor import AnyCompressor, Compressor, MemoryCompressor, load_compressor, token_scale
from okralong.pipelines.sara.generator import IGNORED, Row, chat_pieces, padded, row_of

DONE: Final = "stage.json"
"""The file that is written last into a stage's folder, with the inputs of the stage and its number of examples."""

TRAINED: Final = "training.json"
"""The config of the result, without its section of figures."""

BEGINS_AS: Final = "\nIn short, the text above is about the"  # project default
"""The memory tokens are initialized with these words, repeated, after which a model repeats what it has read.

So even slots of an untrained encoder have some information about their text."""
PLAIN: Final = (
    "The company reported revenue of 4.2 million dollars for the year, an increase of 12 percent over 2017.",
    "He was born in Vienna in 1884 and studied law before he turned to painting, for which he is known today.",
    "We train the model on pairs of sentences and measure the accuracy on a held-out set of 2,000 examples.",
    "The committee agreed that schools in rural districts need more teachers, and asked for a report in March.",
    "The film, directed by Anna Lund, tells the story of two brothers who leave their island after a storm.",
    "Cells were kept at low temperature for six days, after which the growth of the culture was measured again.",
)  # project default
"""Texts of several kinds, from which the norm of memory slots is initialized."""


def train_sara(config: SaraConfig, data: Path | None, work: Path, out: Path, say: Say = quiet) -> None:
    """Train all stages of ``config`` and write the result to ``out``. Embeddings are cached below ``work``.

    ``out`` then has the compressor, the adapter below ``lora``, card, history and curves, and a folder per stage.
    Raises ConfigError if a model cannot be found, InputError if there is no training data.
    """
    encode = encode_for(config, work)
    train, held = Material.read(config, data, "train"), Material.read(config, data, "validation")
    generator = Generator.load(config.model, config.precision)
    compressor = generator.new_compressor(config, int(encode(["size"]).shape[1])).to(generator.device)
    for name, stage in config.stages():
        learned, watched = (
            stage_examples(stage, material, encode, compressor, count)
            for material, count in ((train, stage.examples), (held, stage.validation))
        )
        say(f"{name}: {len(learned):,} examples, {len(watched):,} held out")
        learner = generator.learner(compressor, stage.reply_tokens, name == "alignment" and config.curriculum)
        _fit_once(generator, learner, config, stage, learned, watched, out / name, say)
        losses = [entry["eval_loss"] for entry in evaluations_of(_history(out / name))]
        said = f"loss on validation {losses[0]:.3f} first, {min(losses):.3f} at best" if losses else "no evaluation"
        say(f"{name}: {said}")
        # The weights are read from the files, as a resumed training does, because writing rounds them to float16.
        compressor = load_compressor(out / name, config.model, config.precision).to(generator.device)
    _gather(out, config)


def encode_for(config: SaraConfig, work: Path) -> Encode:
    """Return the sentence encoder of a training, cached below ``work``.

    Memory slots are made from texts, so for these the encoder returns empty vectors.
    """
    if config.memory is not None:
        return lambda texts: np.zeros((len(texts), 0), dtype=np.float32)
    return cached_encoder(work, config.encoder).encode


def _fit_once(
    generator: Generator,
    learner: SaraLearner,
    config: SaraConfig,
    stage: StageConfig,
    train: Sequence[MixedExample],
    held: Sequence[MixedExample],
    folder: Path,
    say: Say,
) -> None:
    """Train a stage, unless its folder is complete and was made from the same inputs."""
    recipe = config.recipe(stage)
    made_from = digest_of(learner, recipe, train, held)
    if _said(folder).get("made_from") == made_from:
        return
    (folder / DONE).unlink(missing_ok=True)
    if isinstance(stage, InstructionConfig):
        learner = generator.adapted(stage, config).learner(learner.compressor, stage.reply_tokens)
    fit(learner.to(generator.device), recipe, train, held, folder, generator.device, say)
    counts = {"train": len(train), "documents": len({each.document for each in train}), "validation": len(held)}
    (folder / DONE).write_text(json.dumps({"made_from": made_from, **counts}) + "\n", encoding="utf-8")
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def _said(folder: Path) -> dict[str, Any]:
    """Return the description of a complete stage, or an empty one."""
    try:
        said: dict[str, Any] = json.loads((folder / DONE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said


def _history(folder: Path) -> Log:
    history: Log = json.loads((folder / HISTORY).read_text(encoding="utf-8"))["history"]
    return history


def _gather(out: Path, config: SaraConfig) -> None:
    """Copy the result of the last stage into ``out``, and write history, curves, card and config there."""
    last, stage = config.stages()[-1]
    for file in (WEIGHTS, DESCRIPTION):
        shutil.copyfile(out / last / file, out / file)
    shutil.rmtree(out / LORA, ignore_errors=True)
    if isinstance(stage, InstructionConfig) and stage.lora is not None:
        shutil.copytree(out / last / LORA, out / LORA)
    (out / TRAINED).write_text(_as_trained(config), encoding="utf-8")
    logs = {str(name): _history(out / name) for name, _ in config.stages()}
    (out / HISTORY).write_text(json.dumps(logs, indent=1) + "\n", encoding="utf-8")
    write_card(out, _card(out, config, logs), logs)


def is_trained_by(out: Path, config: SaraConfig) -> bool:
    """Return whether ``out`` has the result of this config. The section of figures is ignored.

    Keys that the stored config lacks count as having their defaults.
    """
    try:
        kept = SaraConfig.model_validate_json((out / TRAINED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return _as_trained(kept) == _as_trained(config)


def _as_trained(config: SaraConfig) -> str:
    # Only the folder's name is written, because its path depends on the machine.
    named = config.model_copy(update={"model": Path(config.model).name, "encoder": Path(config.encoder).name})
    return named.model_dump_json(indent=1, exclude={"figures"}) + "\n"


def stage_examples(
    stage: StageConfig, material: Material, encode: Encode, compressor: AnyCompressor, count: int
) -> list[MixedExample]:
    """Return at most ``count`` examples of a stage, in the order in which they are learned."""
    config = material.config
    if isinstance(stage, InstructionConfig):
        chosen_by = choosing(compressor, config)
        asked, as_text = dealt(material.asked(), stage.as_text, count)
        return instruction_examples(asked, encode, as_text, chosen_by, config.compression, config.sentences)
    if isinstance(stage, ReconstructionConfig):
        return reconstruction_examples(material.documents, encode, count, stage.chunks, config.seed, config.sentences)
    found = alignment_examples(
        material.documents, encode, count, config.seed, config.alignment.continued, config.sentences
    )
    return from_plain_to_rich(found) if config.curriculum else found


def choosing(compressor: AnyCompressor, config: SaraConfig) -> Compressor | None:
    """Return the compressor in whose space the chunks shown as text are chosen; None if they are the first chunks."""
    chooses = config.reranking and config.compression
    return compressor if chooses and isinstance(compressor, Compressor) else None


def _card(out: Path, config: SaraConfig, logs: Mapping[str, Log]) -> list[str]:
    """Return the card's sections: a description, what each stage learned from, and the validation results."""
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
    asked = config.instruction
    as_it_is = asked is not None and asked.learned and asked.lora is None  # the compressor learned from questions
    one_vector = as_it_is and shape.vectors_per_chunk == 1 and config.unit == "chunk"
    method = "ICAE" if isinstance(shape, MemoryShape) else "xRAG" if one_vector else "SARA"
    without = [name for name, on in off.items() if not on and method == "SARA"]  # other methods have no ablations
    sections = [
        f"# A trained {method} of okralong",
        f"Made by `okralong train-sara`. {_of_what(shape, encoder, base)}, "
        f"fingerprint `{fingerprint}`, for chunks of at most {shape.chunk_tokens} tokens at sentences. Seed "
        f"{config.seed}. Texts and questions of the train side of the split: {', '.join(sets)}."
        + (f" Without {', '.join(without)}." if without else ""),
    ]
    for name, stage in config.stages():
        counted = _said(out / name)
        learned = "the compressor, below the frozen generator"
        if name == "alignment" and config.alignment.continued:
            learned += f", of {config.alignment.continued:.0%} of the texts the text that follows"
        if isinstance(stage, InstructionConfig) and stage.lora is not None:
            learned = f"{config.recipe(stage).learned_words()}, above the frozen compressor"
        evaluations = evaluations_of(logs[name])
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
    return sections


def _of_what(shape: AnyShape, encoder: str, base: str) -> str:
    if isinstance(shape, MemoryShape):
        return (
            f"A compressor of {shape.vectors_per_chunk} memory slots (ICAE), made by {base} itself with an adapter of "
            f"rank {shape.rank} on {', '.join(shape.targets)}, for {base} as it is to read"
        )
    by = "each chunk as a whole"
    if shape.unit == "sentence":
        by = f"each sentence, at most {shape.vectors_per_chunk} per chunk"
    return (
        f"A compressor ({shape.inputs} -> {shape.width} -> {shape.hidden} x {shape.vectors_per_embedding}) from the "
        f"sentence embeddings of {encoder} to the token embeddings of {base}, for {by}"
    )


@dataclass(frozen=True)
class Generator:
    """The frozen language model of a training, with its device and its name in configs."""

    model: Any
    tokenizer: Any
    name: str
    device: str

    @classmethod
    def load(cls, name: str, precision: Precision = "float32") -> Generator:
        """Load a model. Raises ConfigError if it is missing."""
        # The number of threads is given, because Ray's default for a task is one.
        device, dtype = settle("auto", precision, available_cores())
        path = causal_model(name)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **SAFE)
        return cls(
            model.to(device).requires_grad_(False),
            AutoTokenizer.from_pretrained(path, trust_remote_code=False),
            name,
            device,
        )

    def new_compressor(self, config: SaraConfig, inputs: int) -> AnyCompressor:
        """Return an untrained compressor for the model, initialized by the config's seed."""
        if (memory := config.memory) is not None:
            slots = MemoryShape(
                hidden=int(self.model.get_input_embeddings().weight.shape[1]),
                vectors_per_chunk=config.vectors_per_chunk,
                rank=memory.rank,
                alpha=memory.alpha,
                targets=tuple(memory.targets),
                generator=Path(config.model).name,
                chunk_tokens=config.chunk_tokens,
            )
            torch.manual_seed(config.seed)
            made = MemoryCompressor(slots, config.model, config.precision)
            self._begin(made)
            return made
        encoder = resolve_embedding_model(config.encoder)
        embedding = self.model.get_input_embeddings().weight
        shape = Shape(
            inputs=inputs,
            width=config.width,
            hidden=int(embedding.shape[1]),
            vectors_per_chunk=config.vectors_per_chunk,
            unit=config.unit,
            encoder=EMBEDDED if config.encoder == EMBEDDED else encoder.name,
            encoder_sha256=encoder.sha256,
            generator=Path(config.model).name,  # the path of a folder depends on the machine
            chunk_tokens=config.chunk_tokens,
        )
        torch.manual_seed(config.seed)
        return Compressor(shape, token_scale(embedding)).to(self.device)

    @torch.no_grad()
    def _begin(self, compressor: MemoryCompressor) -> None:
        """Initialize the memory tokens with words, and the norm so that slots of some texts resemble token embeddings.

        The slots then have the same mean and spread as token embeddings in each dimension.
        """
        table = self.model.get_input_embeddings().weight.float()
        words = text_ids(self.tokenizer, BEGINS_AS)
        compressor.memory.copy_(table[[words[place % len(words)] for place in range(len(compressor.memory))]])
        states = compressor(PLAIN).flatten(0, 1)
        weight = table.std(dim=0) / states.std(dim=0).clamp_min(1e-3)
        compressor.norm.weight.copy_(weight)
        compressor.norm.bias.copy_(table.mean(dim=0) - weight * states.mean(dim=0))

    def learner(self, compressor: AnyCompressor, reply_tokens: int, in_order: bool = False) -> SaraLearner:
        """Return the learner of the model's adapter, if it has one, else of the compressor."""
        return SaraLearner(self.model, self.tokenizer, compressor, self.name, reply_tokens, in_order)

    def adapted(self, stage: InstructionConfig, config: SaraConfig, start: Path | None = None) -> Generator:
        """Return the generator with an adapter to train: a new one, or that in the folder ``start``.

        This changes the model itself. If the stage trains no adapter, the generator is returned unchanged.
        """
        if stage.lora is None:
            return self
        torch.manual_seed(config.seed)
        adapted = with_adapter(self.model, stage.lora, task="CAUSAL_LM")
        if start is not None:
            begin_with(adapted, start)
        return Generator(adapted, self.tokenizer, self.name, self.device)


class SaraLearner(Learner):
    """Learns from ``MixedExample``s. The loss is computed on the tokens of replies.

    ``model`` is a causal language model, or a PEFT model, whose adapter is then trained instead of the compressor.
    ``base`` is the model's name in configs. The first ``reply_tokens`` tokens of a reply are learned.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        compressor: AnyCompressor,
        base: str,
        reply_tokens: int,
        in_order: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.compressor, self.in_order = model, compressor, in_order
        self.adapted = hasattr(model, "peft_config")
        compressor.set_learning(not self.adapted)
        self._tokenizer, self._base, self._reply_tokens = tokenizer, base, reply_tokens
        self.made_from = f"{compressor.shape} {compressor.fingerprint} {reply_tokens} {in_order}"

    def collate(self, examples: Sequence[MixedExample]) -> dict[str, Any]:
        """Make a batch. ``labels`` is only for the trainer."""
        return {"labels": torch.zeros(len(examples), dtype=torch.long), "examples": list(examples)}

    def forward(self, labels: Tensor, examples: Sequence[MixedExample]) -> dict[str, Tensor]:
        """Return the loss: the mean over the reply tokens of the batch."""
        losses, hits, row = self.token_losses(examples)
        return {"loss": losses.mean(), "right": reply_counts(hits, row, len(examples))}

    def token_losses(self, examples: Sequence[MixedExample]) -> tuple[Tensor, Tensor, Tensor]:
        """Return each reply token's negative log-likelihood, whether it was the most likely token, and its row."""
        return self.row_losses(self.rows(examples))

    def row_losses(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
        """See ``token_losses``."""
        causal = self._causal()
        shared = _shared(rows)
        embedding: nn.Embedding = causal.get_input_embeddings()
        batch = padded([_without(row, shared) for row in rows], embedding, "right")
        said, mask = batch.inputs(), batch.attention_mask
        if shared:
            # The common beginning is read once. It needs gradients only if the adapter is trained.
            with nullcontext() if self.adapted and torch.is_grad_enabled() else torch.no_grad():
                opening = Opening.read(causal, list(rows[0].ids[:shared]))
            said["past_key_values"] = opening.cache_for(len(rows))
            said["attention_mask"] = torch.cat([mask.new_ones((len(rows), shared)), mask], dim=1)
            said["position_ids"] = batch.position_ids + shared
        states: Tensor = causal.model(**said, use_cache=bool(shared)).last_hidden_state
        row, at = (batch.labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
        # The tensor must be contiguous and two-dimensional: otherwise the head copies its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        wanted = batch.labels[row, at + 1]
        return nn.functional.cross_entropy(logits, wanted, reduction="none"), logits.argmax(dim=1) == wanted, row

    def rows(self, examples: Sequence[MixedExample]) -> list[Row]:
        """Return the examples as rows for the model. If the compressor is trained, its vectors have gradients."""
        device = next(self.compressor.parameters()).device
        given = np.concatenate([each.embeddings for each in examples])
        texts = [text for each in examples for text in each.compressed]
        vectors = iter(self.compressor.of_chunks(texts, torch.from_numpy(given).to(device)) if texts else ())
        found = []
        for each in examples:
            own = [torch.cat([next(vectors) for _ in range(size)]) for size in each.sizes]
            pieces = chat_pieces(self._tokenizer, prompt_of(each, own))
            reply = text_ids(self._tokenizer, each.reply)
            if len(reply) < self._reply_tokens:
                reply.append(int(self._tokenizer.eos_token_id))
            found.append(row_of(self._tokenizer, pieces, reply[: self._reply_tokens]))
        return found

    @torch.inference_mode()
    def write(self, examples: Sequence[MixedExample]) -> list[str]:
        """Generate a reply to each prompt by greedy decoding, with at most ``reply_tokens`` tokens."""
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

    def save(self, folder: Path) -> None:
        """Write the compressor's two files and, if an adapter was trained, its files below ``lora``."""
        self.compressor.save(folder)
        if self.adapted:
            save_adapter(self.model, self._base, folder / LORA)


def _shared(rows: Sequence[Row]) -> int:
    """Return the length of the rows' common beginning before the first vector; 0 if it is not worth a separate pass."""
    # The first target is predicted at the token before it, so this token must not be in the common beginning.
    most = min(min(*row.places, row.usage - 1) if row.places else row.usage - 1 for row in rows)
    return shared_size([row.ids for row in rows], most)


def _without(row: Row, size: int) -> Row:
    return replace(row, ids=row.ids[size:], places=tuple(place - size for place in row.places))


# The order of examples in the alignment stage (SARA appendix A.1). The paper ranks sentences by their number of tokens
# and of entities, which spaCy finds. This project does not use spaCy. It counts, at every occurrence, dates, other
# numbers, and runs of capitalized words that do not just begin a sentence.

_MONTH: Final = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
)
_DATE: Final = re.compile(
    rf"\b(?:\d{{1,2}}\s+{_MONTH}\.?(?:,?\s+\d{{4}})?|{_MONTH}\.?\s+\d{{1,2}}(?:,?\s+\d{{4}})?|{_MONTH}\.?\s+\d{{4}})\b"
)
_NUMBER: Final = re.compile(r"\d[\d.,:/]*")
_NAME: Final = re.compile(r"\b[A-Z][\w'\u2019&-]*(?:\s+(?:of|the|and|de|von)?\s*[A-Z][\w'\u2019&-]*)*")
_BEFORE_SENTENCE: Final = re.compile(r"(?:^|[.!?:\n]['\"\u201d)]*)\s*$")


def count_entities(text: str) -> int:
    """Count dates, other numbers and names in ``text``, except a single capitalized word that begins a sentence."""
    rest, dates = _DATE.subn(" ", text)
    numbers = len(_NUMBER.findall(rest))
    names = sum(
        " " in match[0] or not _BEFORE_SENTENCE.search(rest[: match.start()][-8:]) for match in _NAME.finditer(rest)
    )
    return dates + numbers + names


def from_plain_to_rich(examples: Sequence[MixedExample]) -> list[MixedExample]:
    """Sort the examples by the mean of their ranks by tokens and by entities. The sort is stable.

    The paper names both measures, but not how they are combined. Equal weights are a project default.
    """
    ranks = _ranks([count_tokens(each.reply) for each in examples])
    ranks += _ranks([count_entities(each.reply) for each in examples])
    return [examples[number] for number in np.argsort(ranks, kind="stable")]


def _ranks(values: Sequence[int]) -> NDArray[np.float64]:
    """Return the rank of each value, counted from 0. Equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])
