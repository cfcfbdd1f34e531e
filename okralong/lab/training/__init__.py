"""The training of the models that ship: analyzer, reader, cross-encoder, token classifier, and SARA's compressor."""
