"""Published files of Transformers: Hugging Face folders, TensorFlow checkpoints of BERT."""
