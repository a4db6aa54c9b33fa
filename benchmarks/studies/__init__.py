"""Studies in the clear, by simulation and calculation, without parties. Start with `outcome`."""
