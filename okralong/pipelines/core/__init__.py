"""What all packages use: values and errors, table schemas, storage, settings, tokens, logs."""
