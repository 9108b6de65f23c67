provider "aws" {
  region = "eu-central-1"
}

module "limiter" {
  source = "./module"

  name          = "my-app"
  template_file = "${path.module}/zae-limiter.json"
  release       = "0.1.0"
  parameters = {
    PointInTimeRecovery = "true"
    DeletionProtection  = "true"
    AlarmTopicArn       = aws_sns_topic.on_call.arn
  }
  limits = {
    tenant-alpha = "${path.module}/templates/tenant-alpha.template.yaml"
  }
}

resource "aws_sns_topic" "on_call" {
  name = "on-call"
}

resource "aws_iam_role_policy_attachment" "application" {
  role       = var.application_role
  policy_arn = module.limiter.acquire_policy_arn
}

variable "application_role" {
  description = "Name of the role that the application runs with."
  type        = string
}
