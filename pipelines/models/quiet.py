"""Loading a model without a progress bar for its weights, which would stand in the way of the job's own."""

from __future__ import annotations

from typing import Any

import transformers


def quiet_loading() -> None:
    """Turn off transformers' progress bars in this process."""
    messages: Any = transformers.utils.logging
    messages.disable_progress_bar()
