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
    command = "zae-limiter upgrade --code-only --name \"$ZAEL_STACK\""
    environment = {
      ZAEL_STACK = var.name
      AWS_REGION = split(":", aws_cloudformation_stack.limiter.id)[3]
    }
  }
}

resource "aws_cloudformation_stack" "limits" {
  for_each = var.limits

  name          = "${var.name}-limits-${each.key}"
  template_body = file(each.value)
  tags          = var.tags

  depends_on = [terraform_data.code]
}
