import t, { type Test } from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { erasedPersons, findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { eraseAgain, pendingErasures } from '#infra/mongo/person/erase.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import type { BulkBody } from '#shared/operations/bulk-act.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { scaled } from '#testing/chance.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
import { freshAttempt, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import {
  analyticsIds,
  postAnalytics,
  postAudit,
  postMessage,
  postPublish,
  storeSubscription,
} from '#testing/stored/stored-events.ts';
import { makePassDue, storeErasedMeanwhile } from '#testing/stored/stored-person.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';
import { runCommand } from './run-command.ts';
import { ERASURES_SWEEP } from './upkeep/sweeps.ts';

/** Longest wait until MongoDB ends the transaction of a killed process. */
const TIMEOUT_MS = 60_000;
/** End of a pause that outlasts each test. */
const FAR = new Date(Date.now() + 24 * HOUR);

/** A sweep, a bulk act, and what goes out to other services. */
const scenarios = [
  overdueSweep(),
  ...(scaled(0, 1) === 1 ? [secondPass()] : []),
  bulkReplay(),
  ...reports(),
  ...eventsOut(),
];

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, { upkeep: scenarios }),
);

function overdueSweep(): CrashScenario {
  return {
    name: 'overdue sweep',
    status: 'PENDING',
    leastPoints: 8,
    waitsForTransactions: true,
    // Each run snoozes the command for the next sweep and refunds the attempt.
    isOver: ({ fence, lockedUntil }) => fence > 0 && lockedUntil === null,
    spent: [0, 1],
    async post(mongo) {
      const late = Date.now() + HOUR;
      // Postpone the attempts that killed sweeps left: otherwise each run would have more points than the one before. Inside a
      // transaction, the update meets the dead sweep's open transaction as a conflict and is repeated until that one ends.
      const aside = { $set: { deadlineAt: new Date(late) } };
      await inTransaction(mongo, TIMEOUT_MS, (session) =>
        attempts(mongo).updateMany({ status: 'IN_PROGRESS' }, aside, { session }),
      );
      // Postpone the worker's own recurring sweep, which would run first.
      const recurring = { queue: 'upkeep', key: 'upkeep:overdue-attempts', subject: 'attempts', body: {} } as const;
      await postCommand(mongo, newCommand({ ...recurring, maxAttempts: 10, now: late }));
      return postSweep(mongo, (await storeAttempt(mongo))._id);
    },
    async check(t, { mongo }, { subject }) {
      const gradings = () => mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject });
      const before = await attempts(mongo).findOne({ _id: subject });
      t.equal(
        await gradings(),
        before?.status === 'SUBMITTED' ? 1 : 0,
        'submitted with its grading command, or neither',
      );
      const { deadlineAt } = freshAttempt();
      await attempts(mongo).updateOne({ _id: subject, status: 'IN_PROGRESS' }, { $set: { deadlineAt } });
      const sweep = await postSweep(mongo, `again:${subject}`);
      await runCommand(testKernel(mongo), makeActor('upkeep', testWorkerDeps(mongo)), sweep);
      const attempt = await attempts(mongo).findOne({ _id: subject });
      t.match(attempt, { status: 'SUBMITTED', submittedBy: 'TIMEOUT', submittedAt: deadlineAt });
      t.equal(await gradings(), 1, 'one grading command');
    },
  };
}

/**
 * A worker that is killed in the second pass of an erasure leaves the rest to the next pass, which a later sweep runs. Most points of this
 * long run are reads, so it is for FAULTS_FULL=1 only. `person/second-pass.int.test.ts` always tests a death after each write.
 */
function secondPass(): CrashScenario {
  const rowsOf = async (mongo: Mongo, id: string) => (await countRows(mongo, await findPerson(mongo, id))).size;
  return {
    name: 'second pass of an erasure',
    status: 'PENDING',
    leastPoints: 30,
    // A dead worker's transaction holds the next number of the audit, which the next erasure needs as well.
    waitsForTransactions: true,
    isOver: ({ fence, lockedUntil }) => fence > 0 && lockedUntil === null,
    spent: [0, 1],
    async post(mongo) {
      await postponeSweeps(mongo);
      const later = { $set: { 'again.at': new Date(Date.now() + HOUR) } };
      await inTransaction(mongo, TIMEOUT_MS, (session) =>
        erasedPersons(mongo).updateMany({ 'again.at': { $gt: new Date(0) } }, later, { session }),
      );
      const id = await storeErasedMeanwhile(mongo);
      await makePassDue(mongo, id);
      const about = { queue: 'upkeep', key: `upkeep:${id}`, subject: ERASURES_SWEEP.subject, body: {} } as const;
      return (await postCommand(mongo, newCommand({ ...about, maxAttempts: 10, now: Date.now() - HOUR }))).command;
    },
    async check(t, { mongo }, { key }) {
      const id = key.slice('upkeep:'.length);
      const [before] = (await pendingErasures(mongo, 1_000)).filter(({ again }) => again.id === id);
      if (before === undefined) t.equal(await rowsOf(mongo, id), 0, 'the id is forgotten only once nothing is left');
      else {
        await makePassDue(mongo, id);
        const due = { ...before, again: { id, at: (await findTombstone(mongo, id))?.again?.at ?? before.again.at } };
        t.match(await eraseAgain(mongo, due, { now: Date.now(), maxAttempts: 10 }), { kind: 'erased' });
      }
      t.equal(await rowsOf(mongo, id), 0);
      t.match(await findTombstone(mongo, id), {
        state: 'ERASED',
        again: undefined,
        counts: { notifications: { deleted: 2 } },
      });
      const lines = { subject: await tombstoneId(mongo, id), action: 'account.person-erase' } as const;
      t.equal(await operatorAudit(mongo).countDocuments(lines), 2, 'one line of each pass');
    },
  };
}

/** A worker that is killed replays no letter twice, counts each once, and writes one line of the audit for each. */
function bulkReplay(): CrashScenario {
  const letters = 2;
  return {
    name: 'bulk replay of dead letters',
    status: 'DONE',
    leastPoints: 15,
    // A dead worker's transaction holds the next number of the audit, which the request for the next act needs as well.
    waitsForTransactions: true,
    async post(mongo) {
      await postponeSweeps(mongo);
      const cause = newId();
      for (let n = 0; n < letters; n++) await storeDeadGrading(mongo, cause);
      const filter = { queue: 'grading', cause: `Error: ${cause}` } as const;
      const giveUpAt = performance.now() + TIMEOUT_MS;
      for (;;) {
        try {
          return await postBulkAct(mongo, { filter });
        } catch (error) {
          if (performance.now() >= giveUpAt) throw error;
        }
      }
    },
    async check(t, { mongo }, { _id, body }) {
      const { cause = '' } = (body as BulkBody).filter;
      const replayed = await mailboxOf(mongo, 'grading').find({ 'lastError.fingerprint': cause }).toArray();
      t.strictSame(
        replayed.map(({ replays, status }) => `${replays} ${status}`),
        Array(letters).fill('1 PENDING'),
      );
      const rows = await operatorAudit(mongo).find({ 'lastError.fingerprint': cause }).toArray();
      t.equal(rows.length, letters, 'one line of the audit for each letter');
      const command = await mailboxOf(mongo, 'upkeep:deadletters').findOne({ _id });
      t.strictSame(command?.result, { done: letters, skipped: 0, refused: 0, stopped: false });
      t.equal(await operatorAudit(mongo).countDocuments({ commandId: _id, action: 'dead.bulk-end' }), 1);
    },
  };
}

/** Reports to analytics and audit: each event arrives, at most twice, under one id. */
function reports(): CrashScenario[] {
  const report = (name: string, post: (mongo: Mongo) => Promise<Command>, idsOf: (command: Command) => string[]) => ({
    name,
    status: 'DONE' as const,
    leastPoints: 6,
    async post(mongo: Mongo) {
      await postponeSweeps(mongo);
      return post(mongo);
    },
    async check(t: Test, { neighbours }: { neighbours: Neighbours }, command: Command) {
      for (const id of idsOf(command)) {
        const times = neighbours.analytics.get(id) ?? 0;
        // A worker that was killed between the receiver's reply and its own write sends again.
        t.ok(times === 1 || times === 2, `the receiver saw ${id} ${times} times`);
      }
    },
  });
  return [
    report('report to analytics', postAnalytics, analyticsIds),
    report('report to audit', postAudit, ({ subject }) => [subject]),
  ];
}

/** A message to a subscriber, and the publication of an event to two. */
function eventsOut(): CrashScenario[] {
  const common = { status: 'DONE', leastPoints: 6 } as const;
  return [
    {
      ...common,
      name: 'publication of an event',
      async post(mongo) {
        await postponeSweeps(mongo);
        if ((await subscriptions(mongo).countDocuments({})) === 0)
          for (let n = 0; n < 2; n++) await storeSubscription(mongo, 'http://127.0.0.1:1', { pausedUntil: FAR });
        return postPublish(mongo);
      },
      async check(t, { mongo }, { _id }) {
        t.equal(await mailboxOf(mongo, 'upkeep:webhooks').countDocuments({ 'body.eventId': _id }), 2, 'one each');
      },
    },
    {
      ...common,
      name: 'message to a subscriber',
      async post(mongo, { neighbours }) {
        await postponeSweeps(mongo);
        const found = await subscriptions(mongo).findOne({});
        const { _id } = found ?? (await storeSubscription(mongo, `${neighbours.url}/events`));
        return postMessage(mongo, _id);
      },
      async check(t, { neighbours }, { body }) {
        const times = neighbours.notices.get((body as EventMessage).eventId) ?? 0;
        t.ok(times === 1 || times === 2, `the subscriber saw it ${times} times under one id`);
      },
    },
  ];
}

/** Postpones the worker's own sweeps: it claims them beside the command, and the points of their runs would end its count. */
async function postponeSweeps(mongo: Mongo): Promise<void> {
  for (const sweep of [OVERDUE_ATTEMPTS_SWEEP, ORPHANED_FAN_OUTS_SWEEP, UNPAID_GENERATIONS_SWEEP, ERASURES_SWEEP])
    await postCommand(mongo, newCommand({ ...sweep, body: {}, maxAttempts: 10, now: Date.now() + HOUR }));
}

async function postSweep(mongo: Mongo, subject: string): Promise<Command> {
  const about = { queue: 'upkeep', key: `upkeep:${subject}`, subject, body: {} } as const;
  // Due before the killed sweeps, whose leases have expired: the worker would run those first, and they would do this one's work.
  return (await postCommand(mongo, newCommand({ ...about, maxAttempts: 10, now: Date.now() - HOUR }))).command;
}
