"""Published files of Transformers: Hugging Face folders and TensorFlow checkpoints of BERT."""
