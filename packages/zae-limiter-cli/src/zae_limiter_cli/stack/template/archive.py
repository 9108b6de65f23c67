"""The bucket for expired audit events, and for traces."""

from typing import Final

from zae_limiter.maintenance import TRACE_PREFIX

from .grants import over_tls
from .language import Resources, attribute, ref, resource, text, when

TRACE_DAYS: Final = 31  # as far back as `limits plan --replay` reads

# Both outlive their stack, but not one that could not be made: that names no bucket to delete.
KEPT: Final = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}


def archive() -> Resources:
    """Return the bucket. It outlives its stack: `zae-limiter delete` asks about it, CloudFormation alone keeps it."""
    encryption = when(
        "HasKey",
        {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": ref("KmsKeyArn")},
        {"SSEAlgorithm": "AES256"},
    )
    lifecycle = {
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        "Transitions": when("HasGlacier", [{"StorageClass": "GLACIER", "TransitionInDays": ref("ArchiveGlacierDays")}]),
        "ExpirationInDays": when("HasArchiveEnd", ref("ArchiveDays")),
        "NoncurrentVersionExpiration": when("HasArchiveEnd", {"NoncurrentDays": ref("ArchiveDays")}),
    }
    traces = {
        "Status": "Enabled",
        "Prefix": TRACE_PREFIX,
        "ExpirationInDays": TRACE_DAYS,
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
    }
    mode = when("HasCompliance", "COMPLIANCE", "GOVERNANCE")
    retention = {"DefaultRetention": {"Mode": mode, "Days": ref("ArchiveLockDays")}}
    bucket = {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": encryption}]},
        "LifecycleConfiguration": {
            "TransitionDefaultMinimumObjectSize": "varies_by_storage_class",  # else events are too small to move
            "Rules": [lifecycle, traces],
        },
        "VersioningConfiguration": {"Status": "Enabled"},  # what was overwritten is still there
        "ObjectLockEnabled": when("HasLock", True),
        "ObjectLockConfiguration": when("HasLock", {"ObjectLockEnabled": "Enabled", "Rule": retention}),
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
    }
    arns = [attribute("ArchiveBucket", "Arn"), text("${ArchiveBucket.Arn}/*")]
    policy = {"Bucket": ref("ArchiveBucket"), "PolicyDocument": over_tls("s3", arns)}
    return {
        "ArchiveBucket": resource("S3::Bucket", bucket, condition="HasArchive", **KEPT),
        "ArchivePolicy": resource("S3::BucketPolicy", policy, condition="HasArchive", **KEPT),
    }
