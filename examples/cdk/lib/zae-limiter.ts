// The stack of zae-limiter, and stacks of limits, from the templates that the command line prints.

import * as cdk from "aws-cdk-lib";
import { IManagedPolicy, ManagedPolicy, PolicyStatement } from "aws-cdk-lib/aws-iam";
import { CfnAlias } from "aws-cdk-lib/aws-lambda";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { Construct } from "constructs";

export interface ZaeLimiterProps extends cdk.StackProps {
  /** The name of the stack and of its table: what applications open. */
  readonly stackName: string;
  /** What `zae-limiter cfn-template` printed. */
  readonly templateFile: string;
  /** Parameters of the template, such as `AlarmTopicArn`; the others keep the defaults that were printed. */
  readonly parameters?: Record<string, string | number>;
}

/** The table, its Lambdas, alarms and policies: a stack of its own, because all of them are named after it. */
export class ZaeLimiter extends cdk.Stack {
  private readonly template: CfnInclude;

  constructor(scope: Construct, id: string, props: ZaeLimiterProps) {
    super(scope, id, { synthesizer: asPrinted(), ...props });
    this.template = new CfnInclude(this, "Template", { templateFile: props.templateFile });
    for (const [name, value] of Object.entries(props.parameters ?? {})) {
      this.template.getParameter(name).default = value; // still a parameter, which `zae-limiter upgrade` reads
    }
  }

  /** A policy of the stack to attach to a role, such as `AcquirePolicy`. */
  policy(name: string): IManagedPolicy {
    return ManagedPolicy.fromManagedPolicyArn(this, `${name}Arn`, this.template.getOutput(`${name}Arn`).value);
  }
}

export interface NamespaceLimitsProps extends cdk.StackProps {
  /** What `zae-limiter limits cfn-template` wrote for one namespace. */
  readonly templateFile: string;
  readonly limiter: ZaeLimiter;
}

/** The limits of one namespace: to create and to update the stack applies them. */
export class NamespaceLimits extends cdk.Stack {
  constructor(scope: Construct, id: string, props: NamespaceLimitsProps) {
    super(scope, id, { synthesizer: asPrinted(), ...props });
    new CfnInclude(this, "Template", { templateFile: props.templateFile });
    this.addDependency(props.limiter);
  }
}

export interface DelegatedNamespaceProps extends cdk.StackProps {
  readonly namespace: string;
  readonly limiter: ZaeLimiter;
}

/** A namespace that a team plans and applies by itself: aliases that serve it alone, and a policy for each right. */
export class DelegatedNamespace extends cdk.Stack {
  /** To plan and to read the limits of the namespace. */
  readonly planPolicy: ManagedPolicy;
  /** To apply them, too. */
  readonly applyPolicy: ManagedPolicy;

  constructor(scope: Construct, id: string, props: DelegatedNamespaceProps) {
    super(scope, id, props);
    const name = `ns-${props.namespace.replace(/_/g, "__").replace(/\./g, "_d")}`;
    const [planner, provisioner] = ["planner", "provisioner"].map((kind) => {
      const functionName = `${props.limiter.stackName}-limits-${kind}`;
      return new CfnAlias(this, kind, { name, functionName, functionVersion: "$LATEST" }).ref;
    });
    this.planPolicy = invoking(this, "PlanPolicy", [planner]);
    this.applyPolicy = invoking(this, "ApplyPolicy", [planner, provisioner]);
    this.addDependency(props.limiter);
  }
}

function invoking(scope: Construct, id: string, resources: string[]): ManagedPolicy {
  const statements = [new PolicyStatement({ actions: ["lambda:InvokeFunction"], resources })];
  return new ManagedPolicy(scope, id, { statements });
}

function asPrinted(): cdk.IStackSynthesizer {
  return new cdk.DefaultStackSynthesizer({ generateBootstrapVersionRule: false }); // which would add a parameter
}
