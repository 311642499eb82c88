"""ULMFiT: the AWD-LSTM language model, its training and its vectors."""
