from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.embedding.window_pooling import Window, WindowEncoder, pool_spans, windows
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model

pytestmark = pytest.mark.slow

TEXT = "The harbour office opened in 1931. It was closed for good after the flood, and nobody asked why. " * 3


@pytest.fixture(scope="module")
def path() -> str:
    return resolve_embedding_model(EMBEDDED).path


@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 5, 6, 9, 10, 11, 57])
@pytest.mark.parametrize(("most", "overlap"), [(4, 0), (4, 1), (4, 2), (5, 2), (5, 4)])
def test_windows_keep_each_token_once_and_are_never_too_long(tokens: int, most: int, overlap: int) -> None:
    found = windows(tokens, most, overlap)
    assert [token for window in found for token in range(window.first, window.last)] == list(range(tokens))
    assert all(window.start <= window.first < window.last <= window.end for window in found)
    assert all(window.end - window.start <= most for window in found)
    assert all(before.end - after.start == overlap for before, after in pairwise(found))


def test_a_shared_token_is_kept_where_more_stands_around_it() -> None:
    assert windows(10, 6, 4) == [Window(0, 6, 0, 4), Window(2, 8, 4, 6), Window(4, 10, 6, 10)]


@pytest.mark.parametrize("overlap", [-1, 4, 5])
def test_windows_that_would_not_move_on_are_refused(overlap: int) -> None:
    with pytest.raises(ValueError, match="cannot share"):
        windows(10, 4, overlap)


def test_pooling_by_span() -> None:
    states = np.array([[2, 0], [0, 2], [0, 4], [6, 0]], dtype=np.float32)
    begins = np.array([0, 4, 9, 12])
    spans = [(0, 9), (4, 12), (0, 20), (9, 9), (5, 9), (12, 13)]
    pooled = pool_spans(states, begins, spans)
    half = 0.5**0.5
    assert pooled.dtype == np.float32
    # The third is all four tokens; no token begins in the fourth and the fifth.
    assert np.allclose(pooled, [[half, half], [0, 1], [0.8, 0.6], [0, 0], [0, 0], [1, 0]])


def test_spans_of_nothing() -> None:
    assert pool_spans(np.zeros((0, 3), np.float32), np.zeros(0, np.int64), [(0, 5)]).tolist() == [[0.0, 0.0, 0.0]]
    assert pool_spans(np.ones((2, 3), np.float32), np.array([0, 1]), []).shape == (0, 3)


def test_a_chunk_that_is_a_whole_window_is_the_plain_vector_but_for_the_special_tokens(path: str) -> None:
    plain = SentenceEmbedder(path, precision="float32", device="cpu").encode([TEXT])[0]
    # The plain vector is the mean over all tokens, the first and the last special one too.
    alone = WindowEncoder(path, 512).embed(TEXT, [(0, len(TEXT))])[0]
    assert 0.995 < float(plain @ alone) < 0.99999


def test_a_chunk_depends_on_what_stands_beside_it_unless_a_window_ends_there(path: str) -> None:
    tokens, encoder = 23, WindowEncoder(path, 512)
    first = (0, len(TEXT) // 3)
    alone, within = (encoder.embed(text, [first])[0] for text in (TEXT[: first[1]], TEXT))
    apart = WindowEncoder(path, tokens).embed(TEXT, [first])[0]
    assert float(alone @ within) < 0.99
    assert float(alone @ apart) > 0.9999


def test_chunks_of_all_sizes_come_from_one_pass_in_the_order_asked(path: str) -> None:
    encoder = WindowEncoder(path, 32, 8)
    spans = [(0, 97), (97, 194), (0, 194), (40, 120)]
    together = encoder.embed(TEXT, spans)
    assert np.allclose(together, np.concatenate([encoder.embed(TEXT, [span]) for span in spans]), atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
