output "table_name" {
  description = "What applications open: SyncRepository.open(stack=...)."
  value       = aws_cloudformation_stack.limiter.outputs["TableName"]
}

output "acquire_policy_arn" {
  description = "Attach it to the roles of applications."
  value       = aws_cloudformation_stack.limiter.outputs["AcquirePolicyArn"]
}

output "plan_policy_arn" {
  description = "Attach it to the role of pull requests."
  value       = aws_cloudformation_stack.limiter.outputs["InvokePlannerPolicyArn"]
}

output "apply_policy_arn" {
  description = "Attach it to the role that applies limits."
  value       = aws_cloudformation_stack.limiter.outputs["InvokeProvisionerPolicyArn"]
}

output "delegated_policy_arns" {
  description = "By delegated namespace the policy to attach to the role of its team."
  value       = { for namespace, policy in aws_iam_policy.delegated : namespace => policy.arn }
}

output "dead_letters_url" {
  description = "The queue of the records that were given up."
  value       = aws_cloudformation_stack.limiter.outputs["DeadLettersUrl"]
}

output "limits_stacks" {
  description = "The ids of the stacks of limits, by namespace."
  value       = { for namespace, stack in aws_cloudformation_stack.limits : namespace => stack.id }
}
