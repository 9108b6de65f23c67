import * as cdk from "aws-cdk-lib";
import { AccountRootPrincipal, Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { DelegatedNamespace, NamespaceLimits, ZaeLimiter } from "../lib/zae-limiter";

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

const beta = new DelegatedNamespace(app, "TenantBeta", {
  stackName: "my-app-delegation-tenant-beta",
  namespace: "tenant-beta",
  limiter,
});

const teams = new cdk.Stack(app, "Teams");
new Role(teams, "TeamBeta", {
  assumedBy: new AccountRootPrincipal(),
  managedPolicies: [beta.applyPolicy],
});

const application = new cdk.Stack(app, "Application");
new Role(application, "Role", {
  assumedBy: new ServicePrincipal("ecs-tasks.amazonaws.com"),
  managedPolicies: [limiter.policy("AcquirePolicy")],
});
