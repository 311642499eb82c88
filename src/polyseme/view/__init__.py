"""Pictures. 图

Read ``figure.py`` first: Matplotlib with a font that has Chinese. ``plots`` draws the word map, training curves, uses
and comparisons for ``polyseme plot``; ``word_map`` puts a vocabulary on a plane, in the background and cached, for
the page too. Matplotlib is an extra (``plot``) that only this room imports.
"""
