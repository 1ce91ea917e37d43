import type { Mongo } from '#infra/mongo/connect.ts';
import { MAILBOX_OF, MAILBOXES, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { newestAuditFault } from '#infra/mongo/operator-audit.ts';
import type { Command } from '#shared/kernel/command.ts';
import { BOUND, type Finding, findingOf, type Invariant, SAMPLE } from './invariant.ts';

/** Promises about the commands of every queue, and about the audit of operators. */
export const COMMAND_INVARIANTS: readonly Invariant[] = [
  {
    name: 'a pending command can be claimed',
    remedy: '`examhall trace ID` of an example shows it; report it',
    async find(mongo) {
      const findings: Finding[] = [];
      for (const queue of QUEUES) {
        const fields = { live: 1, attempts: 1, maxAttempts: 1, lockedUntil: 1, workerId: 1 };
        const rows = await mongo.db
          .collection<Command>(MAILBOX_OF[queue])
          .find({ queue, status: 'PENDING' }, { ...BOUND, projection: fields, limit: SAMPLE + 1 })
          .sort({ nextRunAt: 1 })
          .toArray();
        findings.push(findingOf(rows as Command[], isUnclaimable));
      }
      return merged(findings);
    },
  },
  {
    name: 'a dead command names its error and its time',
    remedy: '`examhall dead show ID` of an example shows what is stored; report it',
    async find(mongo) {
      const findings = await Promise.all(
        MAILBOXES.map(async (name) => findingOf(await newestDead(mongo, name), isUnexplained)),
      );
      return merged(findings);
    },
  },
  {
    name: 'the newest rows of the audit continue each other',
    remedy: 'run `examhall audit verify`, and compare with the log lines `operator act`',
    async find(mongo) {
      const { fault, intact } = await newestAuditFault(mongo, SAMPLE);
      return { checked: intact, broken: fault === null ? [] : [fault], isCut: intact >= SAMPLE };
    },
  },
];

/** A command whose key is free could be posted twice. One without attempts, or with half a lease, is never claimed as it should be. */
function isUnclaimable({ live, attempts, maxAttempts, lockedUntil, workerId }: Command): boolean {
  return live !== true || attempts > maxAttempts || (lockedUntil === null) !== (workerId === null);
}

async function newestDead(mongo: Mongo, name: (typeof MAILBOXES)[number]): Promise<Command[]> {
  const rows = await mongo.db
    .collection<Command>(name)
    .find(
      { status: 'DEAD' },
      { ...BOUND, hint: 'dead_letters', projection: { lastError: 1, settledAt: 1 }, limit: SAMPLE + 1 },
    )
    .toArray();
  return rows as Command[];
}

function isUnexplained({ lastError, settledAt }: Command): boolean {
  return lastError == null || settledAt == null;
}

function merged(findings: readonly Finding[]): Finding {
  return {
    checked: findings.reduce((sum, { checked }) => sum + checked, 0),
    broken: findings.flatMap(({ broken }) => broken),
    isCut: findings.some(({ isCut }) => isCut),
  };
}
