-- Takes no lock: tells what refused a write, or something newer.
SELECT {generation}{owner} FROM {table} WHERE {key} = {key_value}
