"""What runs a program for r parties."""
