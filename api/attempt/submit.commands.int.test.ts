import type { CommandStartedEvent } from 'mongodb';
import t from 'tap';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { openWanted, subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import type { SubmitRequest } from '#shared/generated/attempt.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callOf, coldFrontDoor } from '#testing/doors/in-process-door.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { storeSubscription } from '#testing/stored/stored-events.ts';
import { countCommands } from '#testing/stores/counted-commands.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import type { RunResult } from '#workers/life.ts';
import { runCommand } from '#workers/run-command.ts';
import { submitAttempt } from './submit.ts';

const READS_LIST = 'find event_subscriptions';
/** Commands of the front door: three commit the submit, and the last one reads the graded attempt. */
const SUBMIT = ['update attempts', 'insert commands', 'commitTransaction', 'find attempts'];
/** Commands of the worker that grades the attempt and announces its result to the student and the parents. */
const GRADE = [
  'findAndModify commands',
  'find attempts',
  'find attempt_releases',
  'update commands',
  'update attempts',
  'insert attempt_notices ×2',
  'commitTransaction',
];
/** The same, and the grade is published. */
const PUBLISHED_GRADE = [...GRADE.slice(0, -1), 'insert commands', 'commitTransaction'];

const mongo = await openTestMongo(t);

/** Returns a command with its collection, and the number of its documents if it inserts more than one. */
function described({ commandName, command }: CommandStartedEvent): string {
  const collection = command[commandName];
  const count = command.documents?.length ?? 1;
  return [
    commandName,
    ...(typeof collection === 'string' ? [collection] : []),
    ...(count > 1 ? [`×${count}`] : []),
  ].join(' ');
}

/** Opens a MongoDB client of one process that records its commands, and the list of wanted types of that process. */
function openProcess(t: Tap, now: () => number) {
  const own: Mongo = openMongo({ url: mongo.url, database: mongo.database, appName: 'counted' });
  t.teardown(() => own.close());
  const sent = countCommands(own, described);
  return { mongo: own, sent, wanted: openWanted(own, now, captureLog()) };
}
type Tap = typeof t;

/** Opens a front door and a grading worker, as two processes whose time stays until it is advanced. */
function openProcesses(t: Tap) {
  let ms = 0;
  const [door, worker] = [openProcess(t, () => ms), openProcess(t, () => ms)];
  const actor = makeActor('grading', { ...testWorkerDeps(worker.mongo), wanted: worker.wanted });
  let running: Promise<RunResult> | undefined;
  const deps = {
    ...coldFrontDoor(door.mongo),
    wanted: door.wanted,
    doorbells: {
      async ring(command: { _id: string; key: string }) {
        running = runCommand(testKernel(worker.mongo), actor, { ...command, queue: 'grading' });
        return true;
      },
      close: async () => undefined,
    },
    replies: {
      register: () => ({ settled: async () => (await running) === 'done', cancel: () => undefined }),
      size: () => 0,
      close: async () => undefined,
    },
  };
  return {
    door,
    worker,
    advance(byMs: number): void {
      ms += byMs;
    },
    /** Submits a new attempt that this front door has started, and waits for the grade. */
    async submit(): Promise<void> {
      const attempt = await storeAttempt(mongo, { deadlineAt: null });
      deps.attemptRefs.add(attempt);
      const call = callOf<SubmitRequest>({}, { attemptId: attempt._id }, attempt.studentId);
      const reply = await submitAttempt(deps, call);
      if (isRejection(reply)) throw new Error(reply.rejected);
      t.equal(reply.status, 200);
    },
  };
}

/** Returns what a submit sends from a front door and a worker that both have the paper and the list of wanted types in memory. */
async function submitted(t: Tap, stored: readonly Partial<Subscription>[]) {
  await subscriptions(mongo).deleteMany({});
  for (const row of stored) await storeSubscription(mongo, 'https://school.example/events', row);
  const { door, worker, submit } = openProcesses(t);
  await submit();
  const wanted = stored.filter(({ state }) => state !== 'DISABLED').flatMap(({ types = [] }) => types);
  for (const { sent, wanted: list } of [door, worker]) {
    let commands: string[] = [];
    await until('the process knows the types', async () => {
      commands = [...commands, ...sent.taken()];
      const known = await Promise.all(wanted.map((type) => list.wants(type)));
      return commands.includes(READS_LIST) && !known.includes(false);
    });
  }
  await submit();
  return { door: door.sent.taken(), worker: worker.sent.taken() };
}

t.test('events that no active subscription wants cost a submit and its grade no MongoDB command', async (t) => {
  const cases: Record<string, Partial<Subscription>[]> = {
    'no subscription': [],
    'a disabled one': [{ types: ['attempt.submitted', 'attempt.graded'], state: 'DISABLED', disabledReason: 'GONE' }],
    'one to other types': [{ types: ['results.released', 'job.completed'] }],
  };
  for (const [name, stored] of Object.entries(cases)) {
    t.strictSame(await submitted(t as Tap, stored), { door: SUBMIT, worker: GRADE }, name);
  }
});

t.test('an active subscription costs a submit no further MongoDB command, and its grade one', async (t) => {
  const withEvent = SUBMIT.map((sent) => (sent === 'insert commands' ? 'insert commands ×2' : sent));
  const both = { types: ['attempt.submitted', 'attempt.graded'] } as const;
  t.strictSame(await submitted(t as Tap, [both]), { door: withEvent, worker: PUBLISHED_GRADE });
  t.strictSame(
    await submitted(t as Tap, [both, both, both]),
    { door: withEvent, worker: PUBLISHED_GRADE },
    'the number of subscriptions changes nothing',
  );
  t.strictSame(await submitted(t as Tap, [{ types: ['attempt.submitted'] }]), { door: withEvent, worker: GRADE });
  t.strictSame(await submitted(t as Tap, [{ types: ['attempt.graded'] }]), { door: SUBMIT, worker: PUBLISHED_GRADE });
});

t.test('a process reads the list of wanted types once in 2.5 s, however many submits it has', async (t) => {
  await subscriptions(mongo).deleteMany({});
  const { door, worker, submit, advance } = openProcesses(t as Tap);
  for (const { sent } of [door, worker]) sent.taken();
  for (let times = 1; times <= 2; times++) {
    for (let i = 0; i < 5; i++) await submit();
    for (const { sent } of [door, worker]) {
      const reads: string[] = [];
      // The second read runs beside the submits.
      await until('the process has read the list', () => {
        reads.push(...sent.taken().filter((command) => command === READS_LIST));
        return reads.length > 0;
      });
      t.equal(reads.length, 1);
    }
    advance(2_500);
  }
});
