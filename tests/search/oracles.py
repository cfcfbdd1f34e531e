"""What search must agree with: bm25s built over exactly the scope's chunks, and numpy over all of its vectors."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s
import numpy as np
import Stemmer

from tests.search.small_archive import Small


def bm25s_scores(small: Small, query: str, scope: Sequence[str]) -> dict[str, float]:
    """Score by chunk_id, of the chunks with a score above zero."""
    inside = small.inside(scope)
    stemmer = Stemmer.Stemmer("english")
    corpus = bm25s.tokenize([small.texts[i] for i in inside], stemmer=stemmer, return_ids=False, show_progress=False)
    terms = bm25s.tokenize(query, stemmer=stemmer, return_ids=False, show_progress=False)[0]
    known = {term for terms_of_chunk in corpus for term in terms_of_chunk}
    terms = [term for term in terms if term in known]
    if not terms:
        return {}
    oracle = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    oracle.index(corpus, show_progress=False)
    scores = oracle.get_scores(terms)
    return {small.chunk_ids[i]: float(score) for i, score in zip(inside, scores, strict=True) if score > 0}


def inner_products(small: Small, vector: Sequence[float], scope: Sequence[str]) -> dict[str, float]:
    """Inner product by chunk_id."""
    query = np.asarray(vector, dtype=np.float32).astype(np.float64)
    products = small.vectors.astype(np.float64) @ query
    return {small.chunk_ids[i]: float(products[i]) for i in small.inside(scope)}
