import os

from zae_limiter_cli.local.lambdas.log import Output


def test_a_second_close_takes_nothing_from_whoever_has_the_number_now() -> None:
    output = Output(lambda _: None)
    output.close()
    somebody = os.open(os.devnull, os.O_RDONLY)
    os.dup2(somebody, output.fd)
    output.close()
    os.fstat(output.fd)
    os.close(output.fd)
    if somebody != output.fd:
        os.close(somebody)
