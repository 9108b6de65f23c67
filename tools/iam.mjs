// Compare the decisions of the tests' evaluator (tools/iam.py) with those of iam-simulate: node iam.mjs FILE
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { createRequire } from 'node:module'

const [file] = process.argv.slice(2)
const found = createRequire(pathToFileURL(file)).resolve('@cloud-copilot/iam-simulate')
const { runSimulation } = await import(pathToFileURL(found))
const { policies, cases, admin, across } = JSON.parse(readFileSync(file, 'utf8'))
const ACCOUNT = '123456789012'

const KNOWN = [
  // AWS's guide to streams and Lambda grants it on the streams of a table; the simulator's data has no resource for it.
  /^Aggregator: ListStreams on stream: impossible$/,
  // A request of these names a network interface; the policy is for all, because Lambda makes them.
  /^VpcPolicy: ec2:\w+ on account: impossible$/,
  // Everybody may ask who they are, whatever policies say.
  /: sts:GetCallerIdentity on account: Allowed$/,
]

// A key's own policy has to let the account's policies decide, as the page on deploying says.
const OF_KEY = {
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${ACCOUNT}:root` }, Action: 'kms:*', Resource: '*' }],
}

async function decision({ action, resource, context }, documents) {
  const answer = await runSimulation({
    request: {
      principal: `arn:aws:iam::${ACCOUNT}:role/x`,
      action,
      resource: { resource, accountId: resource.split(':')[4] || ACCOUNT },
      contextVariables: context,
    },
    identityPolicies: documents.map((policy, number) => ({ name: `${number}`, policy })),
    serviceControlPolicies: [],
    resourceControlPolicies: [],
    ...(action.startsWith('kms:') && { resourcePolicy: OF_KEY }),
  }, {})
  return answer.resultType === 'single' ? answer.overallResult : 'impossible'
}

const counts = { agree: 0, impossible: 0 }
const differ = []
for (const each of cases) {
  for (const [name, documents] of Object.entries(policies)) {
    const decided = await decision(each, documents)
    const mayBe = each.allowed.includes(name)
    if ((decided === 'Allowed') !== mayBe) differ.push(`${name}: ${each.label}: ${decided}`)
    else counts[decided === 'impossible' ? 'impossible' : 'agree'] += 1
  }
}
for (const { action, resource, context, account, policy, label, allowed } of across) {
  const answer = await runSimulation({
    request: {
      principal: `arn:aws:iam::${account}:role/x`,
      action,
      resource: { resource, accountId: ACCOUNT },
      contextVariables: context,
    },
    identityPolicies: [{ name: 'admin', policy: admin }],
    serviceControlPolicies: [],
    resourceControlPolicies: [],
    resourcePolicy: policy,
  }, {})
  const decided = answer.resultType === 'single' ? answer.overallResult : 'impossible'
  if ((decided === 'Allowed') !== allowed) differ.push(`${label}: ${decided}`)
  else counts[decided === 'impossible' ? 'impossible' : 'agree'] += 1
}
const unknown = differ.filter((each) => !KNOWN.some((known) => known.test(each)))
console.log(`decisions that agree: ${counts.agree}; requests that AWS does not have: ${counts.impossible}; known: ${differ.length - unknown.length}`)
for (const each of unknown) console.error(`differs: ${each}`)
process.exit(counts.agree && !unknown.length ? 0 : 1)
