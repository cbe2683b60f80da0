-- The column form of the fence, under the file's one write lock: nobody comes between the comparison and the write.
UPDATE {table} SET {set}
WHERE {key} = {key_value} AND {guard}
