SELECT provider_key, reference, cents FROM provider_charge ORDER BY charge
