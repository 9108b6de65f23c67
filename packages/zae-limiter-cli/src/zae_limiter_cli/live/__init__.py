"""`zae-limiter top`: a namespace as it is now, on a screen that follows it.

``rows`` computes what is shown, ``reading`` reads it with a bounded number of requests, ``plain`` prints it once, and
``screen`` follows it.
"""
