"""Compiled: the Huffman tree of a vocabulary, for hierarchical softmax."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.predict import Tree


@njit(nogil=True, cache=True)
def _parents(counts: Ints) -> tuple[NDArray[np.int32], FloatArray]:
    """The parent of every leaf and inner node, and which child of it the node is. Node n + i is the i-th inner node.

    Words are sorted by descending count and inner nodes are created by ascending weight, so the two lightest nodes are
    always the last unused words or the first unused inner nodes.
    """
    n = len(counts)
    weight = np.empty(2 * n - 1, np.int64)
    weight[:n] = counts
    parent = np.full(2 * n - 1, -1, np.int32)
    side = np.zeros(2 * n - 1, np.float32)
    leaf, inner = n - 1, n
    for made in range(n, 2 * n - 1):
        weight[made] = 0
        for sign in (np.float32(1), np.float32(-1)):
            if leaf >= 0 and (inner >= made or weight[leaf] < weight[inner]):
                child = leaf
                leaf -= 1
            else:
                child = inner
                inner += 1
            weight[made] += weight[child]
            parent[child] = made
            side[child] = sign
    return parent, side


@njit(nogil=True, cache=True)
def _depths(parent: NDArray[np.int32], n: int) -> Ints:
    depth = np.zeros(len(parent), np.int64)
    for node in range(len(parent) - 2, -1, -1):  # a parent comes after its children
        depth[node] = depth[parent[node]] + 1
    return depth[:n]


@njit(nogil=True, cache=True)
def _paths(parent: NDArray[np.int32], side: FloatArray, offsets: Ints) -> tuple[NDArray[np.int32], FloatArray]:
    n = len(offsets) - 1
    nodes = np.empty(offsets[n], np.int32)
    signs = np.empty(offsets[n], np.float32)
    for word in range(n):
        child, place = word, offsets[word + 1]
        while parent[child] >= 0:
            place -= 1
            nodes[place] = parent[child] - n
            signs[place] = side[child]
            child = parent[child]
    return nodes, signs


def huffman_tree(counts: Ints) -> Tree:
    """The tree for words with these counts, which are in descending order."""
    parent, side = _parents(np.ascontiguousarray(counts, dtype=np.int64))
    depths = _depths(parent, len(counts))
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(depths, out=offsets[1:])
    nodes, signs = _paths(parent, side, offsets)
    return Tree(offsets, nodes, signs, int(depths.max()))


def no_tree() -> Tree:
    """An empty tree, to pass where none is used."""
    return Tree(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0)
