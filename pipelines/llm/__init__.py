"""pipelines/llm."""
