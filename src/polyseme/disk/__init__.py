"""Files and folders: results appear whole, once, and only over what is ours. 文件与文件夹

in    bytes to be written, paths to be read
out   a file or folder that is the old one or the new one, never half of either; or a one-line ``FormatError``

Read ``atomic.py`` first (how something is written: next to its target, synced, exchanged), then ``folders.py`` (how
it is read in one version while somebody replaces it). Each file prevents a failure:

locks                 two writers of one path
atomic                a moment without the old and without the new; files that belong together, of different versions
disk_space            a full disk, found out halfway
folders, description  files that were cut, altered or added: the manifest lists every file with its checksum
ownership             replacing what a person put there
files, binary         pipes and devices, sizes that lie, numbers beyond the end
mapped                a memory map whose file is written to

Knows no models: a kind of folder is a ``Manifest`` in the room that owns it, such as ``text/corpus_files.py`` and
``store/folder.py``. Imports NumPy, ``errors`` and ``version``, and nothing else.
"""
