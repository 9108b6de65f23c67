"""The commands of `zae-limiter`: their arguments, options and help. The rooms beside this one do the work.

A group has a folder of its name, with the list of its commands in `group.py`; the commands about a stack have no
group and share the folder `stack`. An `options.py` holds the options that commands of its folder share, and
`zae_limiter_cli.options` those of all commands. A list of commands holds the short help of each, written nowhere
else. A module imports what its options need, and a command the rest when it runs: that keeps `--help` fast.
"""
