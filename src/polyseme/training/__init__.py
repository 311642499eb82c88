"""The training loop that all torch models share; a task provides the batches and their losses."""
