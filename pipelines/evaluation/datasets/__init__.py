"""Adapters: each public data set's own file format in, one ``DataSet`` out. Training and evaluation share them."""
