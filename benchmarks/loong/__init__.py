"""Loong's finance questions without a key: is each document's asked value in the context?"""
