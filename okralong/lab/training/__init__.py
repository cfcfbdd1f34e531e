"""Train the shipped models: analyzer, reader adapter, cross-encoder, token classifier, and SARA's compressor."""
