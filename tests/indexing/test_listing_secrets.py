"""What a location's query holds is not repeated in the message that refuses it."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.listing import list_sources


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/reports?secret_key=abcSECRET",
        "abfs://container@account.dfs.core.windows.net/reports?sv=2024-11-04&sig=abcSECRET",
        "https://bucket.example.com/reports?X-Amz-Signature=abcSECRET",
        "postgres://bucket/reports?passwd=abcSECRET",
    ],
)
def test_a_key_in_the_query_of_a_source_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(ConfigError, match="must not hold credentials") as refused:
        list_sources([location])
    assert "abcSECRET" not in str(refused.value)
