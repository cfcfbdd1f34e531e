"""The examples of instruction tuning: which of the retrieved chunks stand as text, which as vectors (section 2.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from okralong.pipelines.answering.select_evidence import closeness
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.training.data import Asked, Encode
from okralong.pipelines.sara.training.examples import Embeddings, MixedExample


def dealt(asked: Sequence[Asked], shares: Mapping[int, int], examples: int) -> tuple[list[Asked], list[int]]:
    """What at most ``examples`` examples ask, and how many chunks each shows as text: ``InstructionConfig.as_text``.

    A question is asked at most as often as ``shares`` has counts. Asked again, it is further on in the turn, by a step
    that shares no factor with the turn's length: after as many rounds as that it has met every place of it.
    """
    if not asked:
        return [], []
    turn = [count for count, share in shares.items() for _ in range(share)]
    step = next(step for step in range(len(asked) + 1, len(asked) + 1 + len(turn)) if math.gcd(step, len(turn)) == 1)
    rounds = [divmod(number, len(asked)) for number in range(min(examples, len(asked) * len(shares)))]
    return (
        [asked[place] for _, place in rounds],
        [turn[(place + round_ * step) % len(turn)] for round_, place in rounds],
    )


def instruction_examples(
    asked: Sequence[Asked],
    encode: Encode,
    as_text: Sequence[int],
    compressor: Compressor | None,
    compression: bool = True,
) -> list[MixedExample]:
    """One example a question, with as many chunks as text as ``as_text`` (one number a question) says.

    With a ``compressor`` the chunks that stand as text are chosen by embedding novelty in its space, without one they
    are the first ones. Without ``compression`` the others are left out.
    """
    found = []
    for each, count in zip(asked, as_text, strict=True):
        vectors = encode([each.question, *each.chunks])
        if compressor is None:
            chosen = list(range(min(count, len(each.chunks))))
        else:
            chosen = novel(compressor, vectors[0], vectors[1:], count)
        rest = [place for place in range(len(each.chunks)) if place not in chosen] if compression else []
        found.append(
            MixedExample(
                "instruction",
                each.document,
                tuple(each.chunks[place] for place in rest),
                each.answers[0],
                vectors[1:][rest],
                each.question,
                tuple(each.chunks[place] for place in chosen),
            )
        )
    return found


def novel(compressor: Compressor, question: Embeddings, chunks: Embeddings, count: int) -> list[int]:
    """The places of ``count`` of ``chunks`` (n, inputs; best first) in the order of choice: SARA algorithm 1."""
    device = next(compressor.parameters()).device
    space = compressor.pooled(torch.from_numpy(np.vstack([question[None], chunks])).to(device)).cpu().numpy()
    target = (space[0] + space[1]) / 2 if len(chunks) else space[0]
    chosen, rest = [0][:count], list(range(1, len(chunks)))
    while rest and len(chosen) < count:
        gains = closeness(target, space[1:][chosen], space[1:][rest])
        chosen.append(rest.pop(gains.index(max(gains))))
    return [place for place in chosen if place < len(chunks)]
