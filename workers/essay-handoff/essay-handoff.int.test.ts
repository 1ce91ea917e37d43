import t from 'tap';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { makeHandoffsDue } from '#infra/mongo/attempt/grade.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { scriptActor, testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { graded, postGrading, postHandoff, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

const mongo = await openTestMongo(t);
const commands = mongo.db.collection<Command>('commands');
const FAR_MS = 20_000;

/** Runs the handoff of an attempt that has no grade yet. Returns the wait before its next run (ms, by the local clock). */
async function waitAfterCheck(mongo: TestMongo, handoff: Command): Promise<number> {
  const actor = makeActor('essayhandoff', testWorkerDeps(mongo));
  const before = Date.now();
  await runCommand(testKernel(mongo), actor, handoff);
  return (await again(mongo, handoff)).nextRunAt.getTime() - before;
}

async function waitLong(mongo: TestMongo, handoff: Command): Promise<void> {
  // Seven runs suffice if each wait is twice the one before.
  for (let check = 1; check <= 10 && (await waitAfterCheck(mongo, handoff)) < FAR_MS; check++)
    await expire(mongo, handoff);
}

async function submitted(mongo: TestMongo): Promise<{ attempt: Attempt; handoff: Command }> {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  return { attempt, handoff: await postHandoff(mongo, attempt) };
}

t.test('a handoff whose grade does not come checks ever more rarely and spends no attempt', async (t) => {
  const mongo = await openTestMongo(t);
  const { attempt, handoff } = await submitted(mongo);
  const grading = await postGrading(mongo, attempt);
  const hopeless = scriptActor(makeActor('grading', testWorkerDeps(mongo)), async () => ({
    kind: 'dead',
    error: new Error('no'),
  }));
  t.equal(await runCommand(testKernel(mongo), hopeless, grading), 'dead');
  for (const least of [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    const rest = await waitAfterCheck(mongo, handoff);
    t.ok(rest >= least - 100, `${rest} ms after a rest of ${least}`);
    await expire(mongo, handoff);
  }
  t.match(await again(mongo, handoff), { status: 'PENDING', attempts: 0, lockedUntil: null });
});

t.test('the grade wakes the handoffs that wait for it, and no others', async (t) => {
  const mongo = await openTestMongo(t);
  const [{ attempt, handoff }, other] = [await submitted(mongo), await submitted(mongo)];
  // Use ids with a common prefix, and one with the last code point of all.
  const last = await postHandoff(mongo, attempt, { sourceEventId: '\u{10ffff}' });
  const near = await postHandoff(mongo, await storeAttempt(mongo, { ...SUBMITTED, _id: `${attempt._id}x` }));
  for (const command of [handoff, last, near, other.handoff]) await waitLong(mongo, command);
  // The waits may end while this test runs, so lengthen them.
  await mailboxOf(mongo, 'essayhandoff').updateMany({}, { $set: { nextRunAt: new Date(Date.now() + HOUR) } });

  const deps = testWorkerDeps(mongo);
  const grading = await postGrading(mongo, attempt);
  t.equal(await runCommand(testKernel(mongo), makeActor('grading', deps), grading), 'done');
  await deps.background.end(FAR_MS);
  const rung = deps.rings.filter(({ queue }) => queue === 'essayhandoff').map(({ _id }) => _id);
  t.strictSame(rung.sort(), [handoff._id, last._id].sort());
  const handoffs = makeActor('essayhandoff', deps);
  for (const command of [handoff, last]) t.equal(await runCommand(testKernel(mongo), handoffs, command), 'done');
  for (const command of [near, other.handoff]) {
    t.equal(await runCommand(testKernel(mongo), handoffs, command), 'not-ours', 'this handoff still waits');
  }
});

t.test('a grade that commits while a handoff checks is found by that check', async (t) => {
  const mongo = await openTestMongo(t);
  const { attempt, handoff } = await submitted(mongo);
  const grading = await postGrading(mongo, attempt);
  const deps = testWorkerDeps(mongo);
  const slow = scriptActor(makeActor('essayhandoff', deps), async (_run, real) => {
    const waits = await real();
    t.equal(waits.kind, 'snooze', 'the attempt was not graded when the handoff read it');
    t.equal(await runCommand(testKernel(mongo), makeActor('grading', deps), grading), 'done');
    return waits;
  });
  t.equal(await runCommand(testKernel(mongo), slow, handoff), 'done');
  t.equal(slow.runs.length, 2);
  t.match(await findAttempt(mongo, attempt), { status: 'GRADED', totalScore: 2.5 });
});

t.test('a handoff that waits while a grade is decided is woken by that grade', async (t) => {
  const mongo = await openTestMongo(t);
  const { attempt, handoff } = await submitted(mongo);
  const deps = testWorkerDeps(mongo);
  // The second check finds its handoff named already, and must still be seen by the grade.
  for (const checks of ['first', 'second']) {
    const grading = await postGrading(mongo, attempt);
    const slow = scriptActor(makeActor('grading', deps), async (_run, real) => {
      const decided = await real();
      await waitAfterCheck(mongo, handoff);
      return checks === 'first' ? { kind: 'rejected', result: { rejected: 'ATTEMPT_NOT_FOUND' } } : decided;
    });
    await runCommand(testKernel(mongo), slow, grading);
    if (checks === 'first') await expire(mongo, handoff);
    else t.equal(slow.runs.length, 2, 'the grade was decided again');
  }
  await deps.background.end(FAR_MS);
  t.strictSame(
    deps.rings.filter(({ queue }) => queue === 'essayhandoff').map(({ _id }) => _id),
    [handoff._id],
  );
  t.match(await findAttempt(mongo, attempt), { status: 'GRADED', waitingHandoffs: [] });
});

t.test('a grade for which no handoff waits sends nothing for handoffs', async (t) => {
  const mongo = await openTestMongo(t);
  const sent: string[] = [];
  const db = tappedDb(mongo, (method, _call, collection) => {
    sent.push(`${collection}.${method}`);
    return undefined;
  });
  const deps = testWorkerDeps({ ...mongo, db });
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const grading = await postGrading(mongo, attempt);
  const kernel = testKernel(mongo);
  t.equal(await runCommand(kernel, makeActor('grading', deps), grading), 'done');
  await deps.background.end(FAR_MS);
  t.ok(sent.length > 0);
  t.strictSame(
    sent.filter((name) => name.startsWith('commands.')),
    [],
  );
});

t.test('an attempt names a bounded number of handoffs, and the others wait out their backoff', async (t) => {
  const mongo = await openTestMongo(t);
  const waitingHandoffs = Array.from({ length: 200 }, (_, n) => `event-${n}`);
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, waitingHandoffs });
  const handoff = await postHandoff(mongo, attempt);
  await waitAfterCheck(mongo, handoff);
  t.strictSame((await findAttempt(mongo, attempt))?.waitingHandoffs, waitingHandoffs);
  t.match(await again(mongo, handoff), { status: 'PENDING', attempts: 0, lockedUntil: null });
});

t.test('a handoff that backs off after its own failure is not woken', async (t) => {
  const mongo = await openTestMongo(t);
  const { attempt, handoff } = await submitted(mongo);
  const { sourceEventId } = (handoff.body as CommandOf<'essayhandoff'>['body']).handoff;
  const fails = scriptActor(makeActor('essayhandoff', testWorkerDeps(mongo)), async () => ({
    kind: 'retry',
    error: new Error('no'),
    afterMs: FAR_MS,
  }));
  await runCommand(testKernel(mongo), fails, handoff);
  t.strictSame(await makeHandoffsDue(mongo, { _id: attempt._id, waitingHandoffs: [sourceEventId] }), []);
});

/** Runs the command and returns its end and the attempt afterwards. */
async function run(actor: 'grading' | 'essayhandoff', command: Command, attempt: Attempt) {
  const end = await runCommand(testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), command);
  return { end, attempt: await attempts(mongo).findOne({ _id: attempt._id }) };
}

t.test('commands name the student of their attempt', async (t) => {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const about = { attemptId: attempt._id, studentId: attempt.studentId };
  t.match(await postGrading(mongo, attempt), { body: about });
  t.match(await postHandoff(mongo, attempt), { body: about });
});

t.test('a command whose erasure took the student out still finds its attempt by the id', async (t) => {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const posted = [await postGrading(mongo, attempt), await postHandoff(mongo, attempt)] as const;
  for (const { _id } of posted) await commands.updateOne({ _id }, { $unset: { 'body.studentId': 1 } });
  const [grading, handoff] = posted;
  t.match(await run('grading', grading, attempt), { end: 'done', attempt: { status: 'GRADED' } });
  t.match(await run('essayhandoff', handoff, attempt), { end: 'done', attempt: { answers: { q1: { score: 1.5 } } } });
});

t.test('a command whose student was erased since still finds its attempt', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const handoff = await postHandoff(mongo, attempt);
  const erased = { studentId: 'erased-1', erasedAt: new Date() };
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: erased });
  t.match(await run('essayhandoff', handoff, attempt), {
    end: 'rejected',
    attempt: { answers: { q1: { score: null } } },
  });
  const grading = await postGrading(mongo, attempt);
  t.match(await run('grading', grading, attempt), { end: 'done' }, 'it was graded before the erasure');
});
