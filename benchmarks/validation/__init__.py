"""Judges measured runs: complete, ordered, linear, and near the papers' figures?"""
