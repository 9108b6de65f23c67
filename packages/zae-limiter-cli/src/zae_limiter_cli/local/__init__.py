"""What lives here: `zae-limiter local`, an AWS on this machine: moto, Lambdas that really run, a pump for the stream.
What never does: limits, or the stack's template.
"""
