"""Occurrences and senses. 按词义检索"""
