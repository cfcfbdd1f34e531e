"""What one GPU gives the models of an archive: five stages, with random weights of the real shapes.

    python benchmarks/gpu.py --out gpu.md          # or python -m benchmarks.gpu; under ten minutes on one GPU
    python benchmarks/gpu.py --tiny                # tries the code on a CPU in a minute; its figures mean nothing

It needs PyTorch, transformers and PEFT only, and imports nothing of okralong, so that it runs where neither Ray nor a
download is possible; each stage does what the named module does. FAISS is optional. Speed does not depend on the
values of weights, and the tokenizer is trained here on made text.

Each figure is the best of three passes after one that warms up.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertConfig, BertModel, DynamicCache, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

REPEATS = 3
LABELS = 5
"""Labels of a field of the analyzer, each with a distinct first token."""


@dataclass(frozen=True)
class Sizes:
    """How much work there is, and the shapes of the models."""

    texts: int = 20_000
    words: int = 110
    batch: int = 256
    encoder: tuple[int, int, int, int] = (6, 384, 12, 1536)
    """Layers, width, heads and inner width of all-MiniLM-L6-v2."""
    vectors: int = 1_000_000
    queries: int = 256
    found: int = 100
    candidates: int = 30
    together: int = 8
    causal: tuple[int, int, int, int, int] = (16, 2048, 32, 8, 8192)
    """Layers, width, heads, key heads and inner width of Llama-3.2-1B."""
    vocabulary: int = 128_256
    prompt: int = 600
    questions: int = 64
    reply: int = 64
    compressed: int = 10
    """Vectors in a prompt of SARA's generator."""


TINY = Sizes(
    texts=64, batch=16, encoder=(2, 64, 2, 128), vectors=2_000, queries=8, found=10, candidates=6, together=2,
    causal=(2, 64, 4, 2, 128), vocabulary=2_000, prompt=48, questions=4, reply=4, compressed=3,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="small sizes, on a CPU if there is no GPU")
    parser.add_argument("--out", type=Path, help="a Markdown file for the figures")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        raise SystemExit("There is no GPU that PyTorch can use. --tiny tries the code without one.")
    sizes = TINY if given.tiny else Sizes()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "no GPU"
    random.seed(7)
    torch.manual_seed(7)
    lines = [f"`python -m benchmarks.gpu{' --tiny' if given.tiny else ''}`: {name}, PyTorch {torch.__version__}", ""]
    lines += ["| stage | figure | value |", "|---|---|---|"]
    started = time.perf_counter()
    for stage in (embedding, vector_search, cross_encoder, label_scorer, sara_generator):
        for line in stage(sizes, device):
            lines.append(f"| {stage.__name__.replace('_', ' ')} | {' | '.join(line)} |")
            print(lines[-1], flush=True)
    lines += ["", f"{time.perf_counter() - started:.0f} s in all."]
    print("\n".join(lines[:2] + lines[-1:]))
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --------
# The stages. Each yields pairs of a figure's name and its value.


def embedding(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, str]]:
    """Time the embedding stage of the index job (``indexing/embedding.py``) and its encoder alone."""
    texts, tokenizer = made_texts(sizes.texts, sizes.words), made_tokenizer()
    model = encoder(sizes, len(tokenizer), device)

    def tokens(some: list[str]) -> list[list[int]]:
        found: list[list[int]] = tokenizer(some, truncation=True, max_length=512)["input_ids"]
        return found

    def pack(ids: list[list[int]]) -> dict[str, torch.Tensor]:
        padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        kept = {"input_ids": padded["input_ids"], "attention_mask": padded["attention_mask"]}
        return {name: each.to(device, non_blocking=True) for name, each in kept.items()}

    def unit(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        states = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(1).float() / mask.sum(1).float(), dim=1)

    def by_length(ids: list[list[int]]) -> list[list[list[int]]]:
        ordered = sorted(ids, key=len, reverse=True)
        return [ordered[at : at + sizes.batch] for at in range(0, len(ordered), sizes.batch)]

    def stage() -> torch.Tensor:
        return torch.cat([unit(pack(each)).cpu() for each in by_length(tokens(texts))])

    def overlapped() -> torch.Tensor:
        """Tokenise the next share in a thread while the device works on this one."""
        shares = [texts[at : at + 8 * sizes.batch] for at in range(0, len(texts), 8 * sizes.batch)]
        found = []
        with ThreadPoolExecutor(1) as pool:
            for ids in pool.map(tokens, shares):
                found += [unit(pack(each)) for each in by_length(ids)]
        return torch.cat(found).cpu()

    ready = [pack(each) for each in by_length(tokens(texts))]
    bare = best(lambda: [unit(each) for each in ready], device)
    whole, beside = best(stage, device), best(overlapped, device)
    split = best(lambda: tokens(texts), device)
    yield "texts a second, encoder alone", f"{len(texts) / bare:,.0f}"
    yield "stage over encoder alone", f"{whole / bare:.2f}"
    yield "the same, tokenising beside the encoder", f"{beside / bare:.2f}"
    yield "tokenising alone over encoder alone", f"{split / bare:.2f}"


def vector_search(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, str]]:
    """Time exact search of the dense index (``archive/dense.py``): FAISS on the GPU and on the CPU, at equal recall."""
    width = sizes.encoder[1]
    vectors = torch.nn.functional.normalize(torch.randn(sizes.vectors, width), dim=1)
    queries = torch.nn.functional.normalize(torch.randn(sizes.queries, width), dim=1)
    there, asked = vectors.to(device), queries.to(device)
    wanted = (asked @ there.T).topk(sizes.found).indices.cpu()
    exact = best(lambda: (asked @ there.T).topk(sizes.found), device)
    yield "queries a second, PyTorch on the device", f"{sizes.queries / exact:,.0f}"
    try:
        import faiss
    except ModuleNotFoundError:
        yield "FAISS on GPU over CPU", "skipped: FAISS is not installed"
        return

    def recall(index: Any) -> float:
        found = torch.from_numpy(index.search(queries.numpy(), sizes.found)[1])
        pairs = zip(found.tolist(), wanted.tolist(), strict=True)
        return sum(len(set(one) & set(other)) for one, other in pairs) / wanted.numel()

    here = faiss.IndexFlatIP(width)
    here.add(vectors.numpy())
    slow = best(lambda: here.search(queries.numpy(), sizes.found), device)
    yield "queries a second, FAISS on the CPU (recall)", f"{sizes.queries / slow:,.0f} ({recall(here):.3f})"
    if not hasattr(faiss, "StandardGpuResources"):
        yield "FAISS on GPU over CPU", "skipped: this FAISS has no GPU part (faiss-gpu)"
        return
    moved = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, here)
    fast = best(lambda: moved.search(queries.numpy(), sizes.found), device)
    yield "FAISS on GPU over CPU (recall)", f"{slow / fast:.1f} ({recall(moved):.3f})"


def cross_encoder(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, str]]:
    """Time thirty candidates of a query, read by the cross-encoder (``models/cross_encoder.py``)."""
    tokenizer = made_tokenizer()
    passages = made_texts(sizes.candidates * sizes.together, sizes.words)
    pairs = tokenizer(["What was the revenue in 2023"] * len(passages), passages, padding=True, return_tensors="pt")
    names = ("input_ids", "token_type_ids", "attention_mask")

    def seconds(where: torch.device, queries: int) -> float:
        model = encoder(sizes, len(tokenizer), where)
        count = queries * sizes.candidates
        batch = {name: pairs[name][:count].to(where) for name in names if name in pairs}
        return best(lambda: model(**batch).last_hidden_state[:, 0].float().cpu(), where)

    alone, many = seconds(device, 1), seconds(device, sizes.together)
    yield f"ms for {sizes.candidates} candidates of a query", f"{1000 * alone:.1f}"
    yield f"ms a query, {sizes.together} queries together", f"{1000 * many / sizes.together:.1f}"
    if device.type == "cuda":
        yield "CPU over GPU", f"{seconds(torch.device('cpu'), 1) / alone:.0f}"


def label_scorer(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, str]]:
    """Time the analyzer that scores labels (``analyzers/label_scorer.py``): a pass over the prompts, two short ones."""
    model = causal(sizes, device)
    labels = torch.arange(LABELS, device=device)
    head = model.get_output_embeddings().weight

    def score(prompts: torch.Tensor) -> list[int]:
        cache, rows, chosen = DynamicCache(config=model.config), prompts, []
        for _ in range(3):
            states = model.model(input_ids=rows, past_key_values=cache, use_cache=True).last_hidden_state
            # Only the rows of the labels are multiplied, not the whole vocabulary.
            picked = (states[:, -1] @ head[labels].T).argmax(1)
            chosen += picked.tolist()
            rows = picked.unsqueeze(1).repeat(1, 4)
        return chosen

    prompts = made_ids(sizes, sizes.questions, sizes.prompt, device)
    one = best(lambda: [score(each) for each in prompts.split(1)], device) / sizes.questions
    many = best(lambda: [score(each) for each in prompts.split(16)], device) / sizes.questions
    few = prompts[: min(16, sizes.questions)]
    written = best(lambda: model.generate(few, max_new_tokens=min(25, sizes.reply), **GREEDY), device) / len(few)
    yield "ms a question of 600 tokens, batch 1", f"{1000 * one:.1f}"
    yield "the same, batch 16", f"{1000 * many:.1f}"
    yield "batch 1 over batch 16", f"{one / many:.1f}"
    yield "generating 25 tokens over scoring, batch 16", f"{written / many:.1f}"


def sara_generator(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, str]]:
    """Time SARA's generator (``sara/generator.py``): replies to prompts of tokens and vectors."""
    model = causal(sizes, device)
    table = model.get_input_embeddings()

    def write(batch: int) -> float:
        ids = made_ids(sizes, batch, sizes.prompt, device)
        embeds = table(ids)
        embeds[:, 4 : 4 + sizes.compressed] = torch.randn_like(embeds[:, 4 : 4 + sizes.compressed])
        mask = torch.ones(ids.shape, dtype=torch.long, device=device)
        given = {"inputs_embeds": embeds, "attention_mask": mask, "min_new_tokens": sizes.reply}
        return best(lambda: model.generate(**given, max_new_tokens=sizes.reply, **GREEDY), device)

    one, many = write(1), write(8)
    yield "reply tokens a second, batch 1", f"{sizes.reply / one:,.0f}"
    yield "reply tokens a second, batch 8", f"{8 * sizes.reply / many:,.0f}"
    yield "batch 8 over batch 1", f"{8 * one / many:.1f}"


# --------
# Models, texts and clocks.

GREEDY: dict[str, Any] = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}


def encoder(sizes: Sizes, vocabulary: int, device: torch.device) -> Any:
    layers, width, heads, inner = sizes.encoder
    config = BertConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
    )
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    return BertModel(config, add_pooling_layer=False).to(device, kind).eval().requires_grad_(False)


def causal(sizes: Sizes, device: torch.device) -> Any:
    """Return a language model with a LoRA adapter merged in."""
    layers, width, heads, keys, inner = sizes.causal
    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        intermediate_size=inner,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    with torch.device(device):
        made = LlamaForCausalLM(config).to(kind)
    adapted: Any = get_peft_model(made, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    return adapted.merge_and_unload().eval().requires_grad_(False)


def made_texts(count: int, words: int) -> list[str]:
    """Return texts of made words; their lengths vary by half."""
    stock = ["".join(random.choices("abdeiklmnoprstu", k=random.randint(2, 9))) for _ in range(8_000)]
    return [" ".join(random.choices(stock, k=random.randint(words // 2, words * 3 // 2))) for _ in range(count)]


def made_tokenizer() -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=8_000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.train_from_iterator(made_texts(400, 100), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def made_ids(sizes: Sizes, rows: int, length: int, device: torch.device) -> torch.Tensor:
    return torch.randint(10, sizes.vocabulary, (rows, length), device=device)


def best(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the fastest of some passes."""
    found = []
    with torch.inference_mode():
        for _ in range(REPEATS + 1):
            started = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize()
            found.append(time.perf_counter() - started)
    return min(found[1:])


if __name__ == "__main__":
    main()
