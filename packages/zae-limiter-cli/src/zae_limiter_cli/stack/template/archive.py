"""The bucket for expired audit events."""

from .language import Resources, ref, resource, when


def archive() -> Resources:
    """The bucket. It outlives its stack: `zae-limiter delete` asks about it, CloudFormation alone keeps it."""
    encryption = when(
        "HasKey",
        {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": ref("KmsKeyArn")},
        {"SSEAlgorithm": "AES256"},
    )
    to_glacier = {
        "Id": "glacier",
        "Status": "Enabled",
        "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": ref("ArchiveGlacierDays")}],
    }
    clean_up = {"Id": "unfinished", "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
    bucket = {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": encryption}]},
        "LifecycleConfiguration": {
            "TransitionDefaultMinimumObjectSize": "varies_by_storage_class",  # else events are too small to move
            "Rules": when("HasGlacier", [to_glacier, clean_up], [clean_up]),
        },
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
    }
    return {
        "ArchiveBucket": resource(
            "S3::Bucket",
            bucket,
            condition="HasArchive",
            DeletionPolicy="RetainExceptOnCreate",  # a stack that could not be made names no bucket to delete
            UpdateReplacePolicy="Retain",
        )
    }
