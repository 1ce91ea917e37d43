import type { CommandStartedEvent } from 'mongodb';
import t from 'tap';
import { attempts, eventRows } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { openWanted, subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import type { SaveAnswerRequest, SubmitRequest } from '#shared/generated/attempt.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { startBody } from '#testing/clients/attempt-client.ts';
import { callOf, coldFrontDoor, inProcessDoor, startedAttempt } from '#testing/doors/in-process-door.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { storeSubscription } from '#testing/stored/stored-events.ts';
import { type Late, lateShard } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { countCommands } from '#testing/stores/plans.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import type { RunResult } from '#workers/life.ts';
import { runCommand } from '#workers/run-command.ts';
import { receiveHandoff } from './intake.ts';
import { saveOneAnswer } from './save-answer.ts';
import { startAttempt } from './start.ts';
import { submitAttempt } from './submit.ts';

type Tap = typeof t;

const SAVES = 200;

/** Opens a front door whose MongoDB client records its commands, and an attempt with 40 questions. */
async function watchedFrontDoor(t: Tap) {
  const stored = await openTestMongo(t);
  const paper = samplePaper(...Array.from({ length: 40 }, () => ({})));
  const deadlineAt = new Date(Date.now() + 3_600_000);
  const attempt = await storeAttempt(
    stored,
    { answers: {}, deadlineAt, order: paper.questions.map((_, i) => i) },
    paper,
  );
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const deps = coldFrontDoor(mongo);
  return {
    mongo: stored,
    attempt,
    /** Saves one answer and returns the names of the MongoDB commands that it needed. */
    async save(place: number, headers: Record<string, string> = {}): Promise<string[]> {
      const reply = await saveOneAnswer(deps, { ...saveCall(attempt, place), headers });
      if (isRejection(reply)) throw new Error(reply.rejected);
      await deps.eventTails.idle();
      return sent.taken();
    },
  };
}

function saveCall(attempt: Pick<Attempt, '_id' | 'studentId'>, place: number) {
  const body: SaveAnswerRequest = { questionId: `question-${(place % 40) + 1}`, answer: { selectedOptionIds: ['b'] } };
  return callOf(body, { attemptId: attempt._id }, attempt.studentId);
}

const mongo = await openTestMongo(t);

const sharded = await openTestMongo(t);

t.test('a cold process reads the attempt and its paper once each before its first save', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  t.strictSame(await save(0), ['find', 'find', 'findAndModify']);
  t.strictSame(await save(1), ['findAndModify']);
});

t.test('no save of choices needs more than two MongoDB commands, and most need one', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  await save(0);
  const taken: string[] = [];
  for (let place = 1; place <= SAVES; place++) taken.push((await save(place)).join());
  t.same(
    new Set(taken),
    new Set(['findAndModify', 'findAndModify,insert']),
    'the second command copies events to rows',
  );
  // Each roll of the event tail makes room for EVENT_TAIL_CAP - EVENT_TAIL_KEEP saves.
  const rolls = 1 + Math.floor((SAVES - (EVENT_TAIL_CAP - 2)) / (EVENT_TAIL_CAP - EVENT_TAIL_KEEP));
  t.equal(taken.filter((commands) => commands !== 'findAndModify').length, rolls);
});

t.test('a minimal reply needs no more commands than a whole one', async (t) => {
  const { save } = await watchedFrontDoor(t as Tap);
  const minimal = { prefer: 'return=minimal' };
  t.strictSame(await save(0, minimal), ['find', 'find', 'findAndModify']);
  t.strictSame(await save(1, minimal), ['findAndModify']);
});

t.test('a save into a tail without room copies events to rows first', async (t) => {
  const { attempt, save, mongo } = await watchedFrontDoor(t as Tap);
  const [start] = attempt.events;
  const events = Array.from({ length: EVENT_TAIL_LIMIT }, (_, index) => ({
    ...start,
    seq: index + 1,
  })) as typeof attempt.events;
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { events, eventSeq: EVENT_TAIL_LIMIT } });
  t.strictSame(await save(0), ['find', 'find', 'findAndModify', 'insert', 'findAndModify']);
  const stored = await attempts(mongo).findOne({ _id: attempt._id });
  t.equal(stored?.events.length, EVENT_TAIL_KEEP + 1);
  t.equal(await eventRows(mongo).countDocuments({ attemptId: attempt._id }), EVENT_TAIL_LIMIT - EVENT_TAIL_KEEP);
});

t.test('does not cache a missing attempt, because another process may be creating it', async (t) => {
  const stored = await openTestMongo(t);
  const deps = coldFrontDoor(stored);
  const late = { _id: 'late', studentId: 'student-1', deadlineAt: null };
  const save = () => saveOneAnswer(deps, saveCall(late, 0));
  t.strictSame(await save(), { rejected: 'ATTEMPT_NOT_FOUND' });
  await storeAttempt(stored, late, samplePaper({}));
  t.match(await save(), { status: 200 });
});

t.test(
  'only a save of a foreign or unknown attempt needs a look-up by the bare id, and a foreign one needs it once',
  async (t) => {
    const stored = await openTestMongo(t);
    const foreign = await storeAttempt(stored, { deadlineAt: null }, samplePaper({}));
    const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
    t.teardown(() => mongo.close());
    const sent = countCommands(mongo);
    const deps = coldFrontDoor(mongo);
    const refused = async (_id: string) => {
      const reply = await saveOneAnswer(deps, saveCall({ _id, studentId: 'a-stranger' }, 0));
      return { reply, commands: sent.taken() };
    };
    t.strictSame(await refused(foreign._id), { reply: { rejected: 'FORBIDDEN' }, commands: ['find', 'find'] });
    t.strictSame(await refused(foreign._id), { reply: { rejected: 'FORBIDDEN' }, commands: [] });
    for (let n = 0; n < 2; n++) {
      t.strictSame(await refused('unknown'), { reply: { rejected: 'ATTEMPT_NOT_FOUND' }, commands: ['find', 'find'] });
    }
  },
);

t.test('a start sends four commands once its process knows the exam and the paper', async (t) => {
  const stored = await openTestMongo(t);
  const own = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => own.close());
  const sent = countCommands(own, described);
  const deps = coldFrontDoor(own);
  const start = async (studentId: string) => {
    const call = callOf(startBody('exam-1') as never, { examId: 'exam-1' }, studentId);
    startedAttempt(await startAttempt(deps, call));
    return sent.taken();
  };
  await start('student-1');
  const facts = 'aggregate attempt_exam_acts';
  t.strictSame(await start('student-2'), ['find attempts', facts, 'insert attempts', facts]);
});

const READS_LIST = 'find event_subscriptions';
/** Commands of the front door: three commit the submit, and the last one reads the graded attempt. */
const SUBMIT = ['update attempts', 'insert commands', 'commitTransaction', 'find attempts'];
/** Commands of the worker that grades the attempt and announces its result to the student and the parents. */
const GRADE = [
  'findAndModify commands',
  'find attempts',
  'find attempt_regrades',
  'find attempt_releases',
  'update commands',
  'update attempts',
  'insert attempt_notices ×2',
  'commitTransaction',
];
/** The same, and the grade is published. */
const PUBLISHED_GRADE = [...GRADE.slice(0, -1), 'insert commands', 'commitTransaction'];

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
const workerOf = (actor: string) => testWorker(t, testKernel(sharded), makeActor(actor, testWorkerDeps(sharded)));
const workers = { grading: [workerOf('grading')], essayhandoff: [workerOf('essayhandoff')] };
const ATTEMPTS = attempts(sharded).collectionName;

/** Returns a front door that sees what `late` shows until commits arrive. Its workers see all. */
const lateDoor = (late: Late) => inProcessDoor(lateShard(sharded, late).mongo, workers);

t.test('a submit returns the grade although the shard of the attempt does not show it yet', async (t) => {
  const { _id, studentId } = await storeAttempt(sharded);
  const door = lateDoor({ [ATTEMPTS]: (row) => ({ ...row, status: 'SUBMITTED' }) });
  const call = callOf({ source: 'STUDENT' as const }, { attemptId: _id }, studentId);
  t.match(await submitAttempt(door, call), { status: 200, data: { id: _id, status: 'GRADED', totalScore: 1 } });
});

t.test('a repeated submit finds the grading command although its shard does not show it yet', async (t) => {
  const { _id, studentId } = await storeAttempt(sharded);
  const call = () => callOf({ source: 'STUDENT' as const }, { attemptId: _id }, studentId);
  const asleep = inProcessDoor(sharded, {});
  const late = { ...asleep.replies, register: () => ({ settled: async () => false, cancel: () => undefined }) };
  t.match(await submitAttempt({ ...asleep, replies: late }, call()), { status: 202 });
  const door = lateDoor({ [COMMANDS]: (row) => (row.subject === _id ? null : row) });
  t.match(await submitAttempt(door, call()), { status: 200, data: { status: 'GRADED' } }, 'it rings and waits');
});

t.test('a handoff that was applied returns the attempt with its score', async (t) => {
  const attempt = await storeAttempt(sharded, graded());
  const door = lateDoor({ [ATTEMPTS]: (row) => ({ ...row, ...graded() }) });
  const body = { sourceEventId: 'event-1', questionId: 'essay', score: 1.5, maxScore: 2 };
  const call = { ...callOf(body, { attemptId: attempt._id }, ''), identity: {} };
  t.match(await receiveHandoff(door, call as never), {
    status: 200,
    data: { applied: true, attempt: { totalScore: 2.5 } },
  });
});
