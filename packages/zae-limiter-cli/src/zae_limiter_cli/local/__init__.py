"""Run an AWS on this machine: moto, Lambdas that really run, and readers of the stream."""
