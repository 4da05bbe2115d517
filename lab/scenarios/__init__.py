"""Scenarios of the laboratory: networks of namespaces, peers, measurements, the table."""
