# The stack of zae-limiter and a stack of limits for each namespace, from the templates that the command line prints.

terraform {
  required_version = ">= 1.4"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

resource "aws_cloudformation_stack" "limiter" {
  name          = var.name
  template_body = file(var.template_file)
  capabilities  = ["CAPABILITY_NAMED_IAM"]
  parameters    = var.parameters
  tags          = var.tags
}

# The template brings no code: this uploads it, and does so again after each change of template or release.
resource "terraform_data" "code" {
  triggers_replace = [
    aws_cloudformation_stack.limiter.id,
    filesha256(var.template_file),
    var.release,
  ]

  provisioner "local-exec" {
    command = "zae-limiter upgrade --code-only --yes --name \"$ZAEL_STACK\""
    environment = {
      ZAEL_STACK = var.name
      AWS_REGION = split(":", aws_cloudformation_stack.limiter.id)[3]
    }
  }
}

# A delegated namespace: aliases that serve it alone, and a policy to invoke them. They need the code.
locals {
  aliases = { for namespace in var.delegated : namespace => "ns-${replace(replace(namespace, "_", "__"), ".", "_d")}" }
}

resource "aws_lambda_alias" "planner" {
  for_each = var.delegated

  name             = local.aliases[each.key]
  function_name    = "${var.name}-limits-planner"
  function_version = "$LATEST"

  depends_on = [terraform_data.code]
}

resource "aws_lambda_alias" "provisioner" {
  for_each = var.delegated

  name             = local.aliases[each.key]
  function_name    = "${var.name}-limits-provisioner"
  function_version = "$LATEST"

  depends_on = [terraform_data.code]
}

resource "aws_iam_policy" "delegated" {
  for_each = var.delegated

  name_prefix = "${var.name}-delegated-"
  description = "${var.name}: plan and apply limits of ${each.key}"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "lambda:InvokeFunction"
      Resource = [aws_lambda_alias.planner[each.key].arn, aws_lambda_alias.provisioner[each.key].arn]
    }]
  })
}

resource "aws_cloudformation_stack" "limits" {
  for_each = var.limits

  name          = "${var.name}-limits-${each.key}"
  template_body = file(each.value)
  tags          = var.tags

  depends_on = [terraform_data.code]
}
