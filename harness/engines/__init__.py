"""What runs a program for several parties, and gives back the integers that it opened.

An engine knows neither epsilon nor what the integers mean. Imports: `inputs`, `clients` and below. Start with
`base`, what a run is, and `engine`, what all engines do alike; `registry` says which engine runs a model.
"""
