"""Plots and planes. 图"""
