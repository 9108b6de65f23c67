variable "name" {
  description = "Name of the stack and of its table: what applications open."
  type        = string
}

variable "template_file" {
  description = "What `zae-limiter cfn-template` printed."
  type        = string
}

variable "release" {
  description = "The release of zae-limiter-cli that is installed; a change uploads the code again."
  type        = string
}

variable "parameters" {
  description = "Parameters of the template, such as AlarmTopicArn; the others keep the defaults that were printed."
  type        = map(string)
  default     = {}
}

variable "limits" {
  description = "For each namespace the file that `zae-limiter limits cfn-template` wrote."
  type        = map(string)
  default     = {}
}

variable "delegated" {
  description = "Namespaces that a team may plan and apply by itself."
  type        = set(string)
  default     = []
}

variable "tags" {
  description = "Tags of the stacks, and from there of their resources."
  type        = map(string)
  default     = {}
}
