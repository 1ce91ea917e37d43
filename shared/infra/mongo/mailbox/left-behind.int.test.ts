import t from 'tap';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postMessage } from '#testing/stored/stored-events.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand } from './claim.ts';
import { type CommandOf, LEFT_BEHIND } from './commands.ts';
import { findCommand, markDead } from './dead-letters.ts';
import { mailboxOf } from './mailbox.ts';
import { endIdleCommand, type NextState, settleCommand } from './settle.ts';

type Message = CommandOf<'upkeep:webhooks'>;
type Next = NextState<'upkeep:webhooks'>;

const mongo = await openTestMongo(t);
const DONE = { to: 'DONE', result: { status: 204 } } as const satisfies Next;
const DEAD = { to: 'DEAD', error: { fingerprint: 'Error', message: 'no answer' } } as const satisfies Next;
const HOLDER = { workerId: 'worker-1', leaseMs: 60_000 };

async function claimed(): Promise<Message> {
  const claim = await claimCommand(mongo, (await postMessage(mongo, newId())) as Message, HOLDER);
  if (claim.kind !== 'claimed') throw new Error(`the claim is ${claim.kind}`);
  return claim.command as Message;
}

const settled = async (next: Next) => {
  const command = await claimed();
  await settleCommand(mongo, command, next);
  return command;
};

const endedIdle = async (end: typeof DONE | typeof DEAD) => {
  const command = (await postMessage(mongo, newId())) as Message;
  t.equal(await inTransaction(mongo, 10_000, (session) => endIdleCommand(mongo, command, end, session)), 'ended');
  return command;
};

async function lostWithItsWorker() {
  const command = (await postMessage(mongo, newId())) as Message;
  const lost = { attempts: command.maxAttempts, fence: 10, lockedUntil: command.nextRunAt };
  await mailboxOf(mongo, 'upkeep:webhooks').updateOne({ _id: command._id }, { $set: lost });
  t.match(await claimCommand(mongo, command, HOLDER), { kind: 'dead', command: { body: { studentId: undefined } } });
  return command;
}

async function dropped() {
  const command = await lostWithItsWorker();
  const letter = await findCommand(mongo, command._id);
  if (letter === null) throw new Error('the letter is gone');
  t.ok(await markDead(mongo, letter, 'DROPPED', { operator: 'an', reason: 'a test', now: Date.now() }));
  return command;
}

const ENDS: readonly { name: string; status: string; end: () => Promise<Message> }[] = [
  { name: 'done', status: 'DONE', end: () => settled(DONE) },
  { name: 'rejected', status: 'REJECTED', end: () => settled({ to: 'REJECTED', result: { rejected: 'UNAVAILABLE' } }) },
  { name: 'dead', status: 'DEAD', end: () => settled(DEAD) },
  { name: 'done without a worker', status: 'DONE', end: () => endedIdle(DONE) },
  { name: 'dead without a worker', status: 'DEAD', end: () => endedIdle(DEAD) },
  { name: 'dead with its last worker', status: 'DEAD', end: lostWithItsWorker },
  { name: 'dropped by an operator', status: 'DEAD', end: dropped },
];

for (const { name, status, end } of ENDS) {
  t.test(`a command that is ${name} leaves the personal fields of its body behind`, async (t) => {
    t.strictSame(LEFT_BEHIND['upkeep:webhooks'], ['body.studentId']);
    const { _id, body } = await end();
    const { studentId = '', ...rest }: EventMessage = body;
    t.not(studentId, '');
    const stored = await findCommand(mongo, _id);
    t.equal(stored?.status, status);
    t.strictSame(stored?.body, rest, 'the rest of the body stays');
  });
}

t.test('a command that goes on keeps them', async (t) => {
  const { _id, body } = await settled({ to: 'AGAIN', inMs: 0, unspent: false, error: DEAD.error });
  t.strictSame((await findCommand(mongo, _id))?.body, body);
});

t.test('a command of another queue keeps its body at its end', async (t) => {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  const claim = await claimCommand(mongo, command as CommandOf<'grading'>, HOLDER);
  if (claim.kind !== 'claimed') throw new Error(`the claim is ${claim.kind}`);
  await settleCommand(mongo, claim.command, DEAD);
  t.strictSame((await findCommand(mongo, command._id))?.body, command.body);
});
