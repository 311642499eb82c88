"""Training Transformers from a corpus: BERT, GPT, XLM, MT-DNN. 预训练"""
