provider "aws" {
  region = "eu-central-1"
}

module "limiter" {
  source = "./module"

  name          = "my-app"
  template_file = "${path.module}/zae-limiter.json"
  release       = "0.1.0"
  parameters = {
    AggregatorMemory = "512"
    AlarmTopicArn    = aws_sns_topic.on_call.arn
  }
  limits = {
    tenant-alpha = "${path.module}/templates/tenant-alpha.template.yaml"
  }
  delegated = ["tenant-beta"]
}

resource "aws_sns_topic" "on_call" {
  name = "on-call"
}

resource "aws_iam_role_policy_attachment" "application" {
  role       = var.application_role
  policy_arn = module.limiter.acquire_policy_arn
}

resource "aws_iam_role_policy_attachment" "team_beta" {
  role       = var.team_beta_role
  policy_arn = module.limiter.delegated_policy_arns["tenant-beta"]
}

variable "team_beta_role" {
  description = "Name of the role that plans and applies the limits of tenant-beta, and of no other namespace."
  type        = string
}

variable "application_role" {
  description = "Name of the role that the application runs with."
  type        = string
}
