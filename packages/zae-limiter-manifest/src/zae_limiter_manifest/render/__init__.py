"""Render plans and answers for people and programs: text, Markdown, JSON. Every renderer is a function from values to a
string.
"""
