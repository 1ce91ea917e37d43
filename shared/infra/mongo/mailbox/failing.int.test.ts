import t from 'tap';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { OPERATOR } from '#testing/stored/stored-dead-letters.ts';
import { postNotices, refusedRun, retried, runAs } from '#testing/stored/stored-failures.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand } from './claim.ts';
import { replayDead } from './dead-letters.ts';
import { failingCommands } from './failing.ts';
import { mailboxOf } from './mailbox.ts';

t.test('a refusal ends with the next run that is taken, and begins anew with another status', async (t) => {
  const mongo = await openTestMongo(t);
  const [student] = await postNotices(mongo);
  const since = async () => (await again(mongo, student)).lastError?.refusal?.since;
  await runAs(mongo, student, refusedRun('notification', 401));
  const first = await since();
  t.type(first, Date);
  await expire(mongo, student);
  await runAs(mongo, student, refusedRun('notification', 401));
  t.strictSame(await since(), first, 'a repeat keeps the time of the first');
  await expire(mongo, student);
  await runAs(mongo, student, { kind: 'retry', error: new Error('the notification service answered 503') });
  t.match(await again(mongo, student), { lastError: { refusal: null }, failing: true });
  const { failingSince } = await again(mongo, student);
  t.ok(Number(failingSince) <= Number(first), 'the row of failures goes on');
  await expire(mongo, student);
  await runAs(mongo, student, refusedRun('notification', 401));
  t.ok(Number(await since()) > Number(first));
  await expire(mongo, student);
  await runAs(mongo, student, { kind: 'done', as: 'DELIVERED', result: { recipients: 1 } });
  const delivered = await again(mongo, student);
  t.match(delivered, { status: 'DELIVERED' });
  t.notOk('failing' in delivered || 'failingSince' in delivered);
});

t.test('a replayed dead letter begins a new row of failures', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 2 });
  await runAs(mongo, command, retried());
  await mailboxOf(mongo, 'grading').updateOne(
    { _id: command._id },
    { $set: { failingSince: new Date(Date.now() - HOUR) } },
  );
  await expire(mongo, command);
  await runAs(mongo, command, retried());
  const dead = await again(mongo, command);
  t.match(dead, { status: 'DEAD', failing: true });
  t.ok(await replayDead(mongo, dead, { ...OPERATOR, now: Date.now() }));
  const replayed = await again(mongo, command);
  t.notOk('failing' in replayed || 'failingSince' in replayed);
  await runAs(mongo, command, retried({ afterMs: HOUR }));
  const failing = await failingCommands(mongo, 'grading', { now: Date.now() + 5 * MINUTE, limit: 10 });
  t.match(failing, [{ count: 1, heldBack: null }]);
});

t.test('failing commands are counted by their cause, and at most up to the limit', async (t) => {
  const mongo = await openTestMongo(t);
  const outcomes = [
    refusedRun('usage', 401),
    refusedRun('usage', 401),
    refusedRun('wallet', 403),
    retried(),
    retried(),
  ];
  for (const outcome of outcomes)
    await runAs(mongo, await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)), outcome);
  const read = async (limit: number, now: number) =>
    (await failingCommands(mongo, 'grading', { now, limit }))
      .map(({ refusal, count, heldBack }) => [refusal?.service, refusal?.status, count, heldBack?.count])
      .sort();
  t.strictSame(await read(10, Date.now()), [
    [undefined, undefined, 2, undefined],
    ['usage', 401, 2, undefined],
    ['wallet', 403, 1, undefined],
  ]);
  const counted = await read(3, Date.now() + HOUR);
  t.equal(
    counted.reduce((sum, [, , count]) => sum + Number(count), 0),
    3,
  );
  t.strictSame(
    counted.map(([, , count, held]) => count === held),
    counted.map(() => true),
  );
});

t.test('a command is held back while it backs off or its worker was lost, and not while it runs', async (t) => {
  const mongo = await openTestMongo(t);
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await runAs(mongo, command, retried());
  const heldAt = async (ms: number) => {
    const [one] = await failingCommands(mongo, 'grading', { now: Date.now() + ms, limit: 10 });
    return one?.heldBack?.count ?? 0;
  };
  t.equal(await heldAt(9 * MINUTE), 0);
  t.equal(await heldAt(11 * MINUTE), 1);
  await expire(mongo, command);
  await claimCommand(mongo, command, { workerId: 'w', leaseMs: 15 * MINUTE });
  t.equal(await heldAt(11 * MINUTE), 0, 'it runs');
  t.equal(await heldAt(16 * MINUTE), 1, 'its worker is lost');
});
