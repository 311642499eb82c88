"""One training loop for every torch model: batches and losses come from a task, all the rest is here."""
