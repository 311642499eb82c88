"""Tasks: any encoder, frozen or fine-tuned, under a head that classifies, compares, tags or finds an answer."""
