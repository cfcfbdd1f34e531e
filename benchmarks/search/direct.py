"""The peer: bm25s, FAISS and numpy called directly, with an index built beforehand for exactly each scope.

Everything is in memory, each document has its own BM25 index, and queries are tokenized as cheaply as here. Results
contain what a caller needs: ids, texts and fused scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive.terms import analyze_query, analyze_texts

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Direct:
    """One collection: its ids and texts, a bm25s index, a FAISS index."""

    ids: list[str]
    texts: list[str]
    words: Any
    vectors: Any

    @classmethod
    def of(cls, ids: list[str], texts: list[str], vectors: Vectors, kept: Path | None = None) -> Direct:
        """Build one over some chunks; ``kept`` is the folder of its bm25s index."""
        if kept and kept.exists():
            words = bm25s.BM25.load(str(kept))
        else:
            terms = analyze_texts(texts)
            corpus = [part.tolist() for part in np.split(terms.terms, np.cumsum(terms.lengths)[:-1])]
            named = {term: number for number, term in enumerate(terms.vocabulary)}
            words = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
            words.index(bm25s.tokenization.Tokenized(corpus, named), show_progress=False)
            if kept:
                words.save(str(kept), show_progress=False)
        flat = faiss.IndexFlatIP(vectors.shape[1])
        flat.add(vectors)
        return cls(ids, texts, words, flat)

    def search(self, query: str, vector: Vectors, k: int) -> list[tuple[str, str, float]]:
        """Return the union of the best ``k`` of both sides with min-max fused scores at 1 : 1, best first."""
        k = min(k, len(self.ids))
        known = [term for term in analyze_query(query) if term in self.words.vocab_dict]
        scores = self.words.get_scores(known)
        exact = np.argpartition(scores, len(scores) - k)[-k:]
        exact = exact[scores[exact] > 0]
        near, semantic = self.vectors.search(vector[np.newaxis], k)
        fused: dict[int, float] = {}
        for rows, found in ((exact, scores[exact]), (semantic[0], near[0])):
            low, high = found.min(), found.max()
            share = (found - low) / (high - low) if high > low else np.ones(len(found))
            for row, value in zip(rows.tolist(), share.tolist(), strict=True):
                fused[row] = fused.get(row, 0.0) + value
        ranked = sorted(fused.items(), key=lambda item: (-item[1], self.ids[item[0]]))
        return [(self.ids[row], self.texts[row], score) for row, score in ranked]
