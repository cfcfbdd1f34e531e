"""The training of the shipped models: analyzer, reader, cross-encoder, token classifier, and SARA's compressor."""
