import { MongoServerError } from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { gradingOrder } from '#shared/attempt/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand, endHolderSession } from './claim.ts';
import { newCommand } from './commands.ts';
import { postCommand } from './mailbox.ts';
import { settleCommand } from './settle.ts';

const REFUSED = { kind: 'refused' };
const MINUTES_MS = 5 * 60_000;

t.test('a command to run at once is due although the clock of its sender is ahead of MongoDB', async (t) => {
  const mongo = await openTestMongo(t);
  const ahead = Date.now() + MINUTES_MS;
  const post = async (key: string, times: { now: number; runAt?: number }) => {
    const wanted = { ...gradingOrder({ _id: key, studentId: 'student-1' }), maxAttempts: 10, ...times };
    return (await postCommand(mongo, newCommand(wanted))).command;
  };
  const claim = (command: Command) => claimCommand(mongo, command, { workerId: 'worker-1', leaseMs: 60_000 });

  const posted = await post('at once', { now: ahead });
  const found = await claim(posted);
  t.match(found, { kind: 'claimed', command: { _id: posted._id, attempts: 1, fence: 1 } }, 'a ring finds it due');
  if (found.kind !== 'claimed') return;
  const claimed = found.command;
  t.ok(claimed.nextRunAt.getTime() < ahead, 'the lease ends by the clock of MongoDB');
  t.strictSame(await claim(posted), REFUSED, 'once claimed, it is leased');
  await settleCommand(mongo, claimed, { to: 'AGAIN', inMs: MINUTES_MS, unspent: true, error: null });
  t.strictSame(await claim(posted), REFUSED, 'a snoozed command is not due yet');

  t.strictSame(
    await claim(await post('later', { now: Date.now(), runAt: ahead })),
    REFUSED,
    'a command for a later time is not due',
  );
});

t.test('a member that is down does not prevent the end of a session through a router', async (t) => {
  const answering = (error: Error) =>
    ({ db: { admin: () => ({ command: () => Promise.reject(error) }) } }) as unknown as Mongo;
  const refusal = (code: number) => new MongoServerError({ code, message: 'Failed to kill sessions on some hosts' });
  const id = '0190f0a2-7c1e-7000-8000-000000000001';
  await t.resolves(endHolderSession(answering(refusal(6)), id));
  for (const other of [refusal(13), new Error('a bug')]) await t.rejects(endHolderSession(answering(other), id), other);
});
