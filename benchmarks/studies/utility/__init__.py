"""What released score curves are worth, by method, epsilon, records and groups. Start with `study`."""
