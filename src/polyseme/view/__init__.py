"""Pictures and planes. 图"""
