"""The training of the models that ship: analyzer, reader, and SARA's compressor."""
