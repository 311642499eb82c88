"""Every place where a string, a pattern or words stand, in context. 语料检索"""
