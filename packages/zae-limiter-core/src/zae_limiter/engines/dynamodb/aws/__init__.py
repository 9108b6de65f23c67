"""The configuration of AWS, found by botocore: endpoint, region, credentials. The only room that imports botocore."""
