"""The inner loops of the word methods, compiled by Numba. 编译的内循环

A file is named after the method or the step that it serves. Read ``predict.py`` first (word2vec, with ``rows.py`` for
the arithmetic of one prediction). A kernel takes NumPy arrays and numbers and checks nothing: its caller in
``words/`` has checked every index. The compiled code is cached; a command imports a kernel only when it runs one.
"""
