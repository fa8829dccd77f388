"""From log files to events: fast, in constant memory, whatever stands in them. `read_logs` is the door."""
