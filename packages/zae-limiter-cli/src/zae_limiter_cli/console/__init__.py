"""`zae-limiter console`: the live view in a browser. ``access`` says who comes in, ``pages`` what they see."""
