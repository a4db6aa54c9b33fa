"""Studies by simulation and calculation, without parties. Start with `outcome`."""
