"""The published formats of ELMo, read and (``bilm``) written. 公开的 ELMo 文件

Read ``recognise.py`` first: which of the formats a path holds, told by content and without torch.

bilm        options.json and weights.hdf5 of bilm-tf and AllenNLP
manylangs   the folders of ELMoForManyLangs
allennlp    an ELMo inside a saved AllenNLP model

Every shape is compared with what the settings describe before anything is read; nothing in a file is executed.
"""
