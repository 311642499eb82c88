"""Labelled and parallel data, each kind detected by its content: Examples, Parallel. 标注数据与平行语料"""
