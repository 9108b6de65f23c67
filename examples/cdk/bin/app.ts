import * as cdk from "aws-cdk-lib";
import { Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { NamespaceLimits, ZaeLimiter } from "../lib/zae-limiter";

const app = new cdk.App();

const limiter = new ZaeLimiter(app, "Limiter", {
  stackName: "my-app",
  templateFile: "zae-limiter.json",
  parameters: { AggregatorMemory: 512 },
});

new NamespaceLimits(app, "TenantAlpha", {
  stackName: "my-app-limits-tenant-alpha",
  templateFile: "templates/tenant-alpha.template.yaml",
  limiter,
});

const application = new cdk.Stack(app, "Application");
new Role(application, "Role", {
  assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com"),
  managedPolicies: [limiter.policy("AcquirePolicy")],
});
