import { MongoServerError } from 'mongodb';
import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradingOrder } from '#shared/attempt/commands.ts';
import { settlementOrder } from '#shared/classifier/commands.ts';
import type { Command, CommandRef } from '#shared/kernel/command.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postMessage } from '#testing/stored/stored-events.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { claimCommand, endHolderSessions } from './claim.ts';
import { COMMANDS, type CommandOf, LEFT_BEHIND, newCommand } from './commands.ts';
import { findCommand, markDead } from './dead-letters.ts';
import { openDueReader } from './due.ts';
import { mailboxOf, makeDueNow, postCommand } from './mailbox.ts';
import { endIdleCommand, type NextState, settleCommand } from './settle.ts';

const mongo = await openTestMongo(t);
const NOW = Date.now();
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
  await t.resolves(endHolderSessions(answering(refusal(6)), [id]));
  for (const other of [refusal(13), new Error('a bug')])
    await t.rejects(endHolderSessions(answering(other), [id]), other);
});

/** Stores pending messages: `a*3` are three of the receiver a, each due a second after the one before; those of `-` have no receiver. */
async function storeMessages(t: Test, piles: readonly string[]) {
  const mongo = await openTestMongo(t);
  const rows = piles.flatMap((pile) => {
    const [name = '', count = '1'] = pile.split('*');
    return Array.from({ length: Number(count) }, (_, n) => ({
      ...newCommand({
        queue: 'upkeep:webhooks',
        key: `${name}${n}`,
        subject: 'exam',
        ...(name === '-' ? {} : { organizationId: name }),
        body: { subscriptionId: name, eventId: `${n}`, type: 'job.completed', createdAt: new Date(NOW), data: {} },
        maxAttempts: 3,
        now: NOW - HOUR + n * 1_000,
      }),
    }));
  });
  await mongo.db.collection(COMMANDS).insertMany(rows.map((row) => ({ ...row }) as never));
  const reader = openDueReader(mongo, 'upkeep:webhooks');
  return { mongo, read: async (limit: number) => (await reader(NOW, limit)).map(({ key }) => key).join(' ') };
}

t.test('all that is due is read, longest due first, also again', async (t) => {
  const { read } = await storeMessages(t, ['-', 'b*2', 'a*2']);
  t.match(await read(10), /^(-0|a0|b0) (-0|a0|b0) (-0|a0|b0) (a1|b1) (a1|b1)$/);
  t.equal((await read(10)).split(' ').length, 5);
  t.equal((await read(5)).split(' ').length, 5, 'a read that is just full');
  t.equal((await read(5)).split(' ').length, 5, 'begins anew');
});

t.test('a backlog of one fills a read, and the next one has the others', async (t) => {
  const { read } = await storeMessages(t, ['-', 'a*9', 'b*1', 'c*9', 'd*1']);
  t.equal(await read(4), '-0 a0 a1 a2');
  t.equal(await read(4), 'b0 c0 c1 c2');
  t.equal(await read(4), 'd0 -0 a0 a1', 'those after the place, then the first ones');
  t.equal(await read(4), 'b0 c0 c1 c2');
});

t.test('only pending commands of the queue that are due are read', async (t) => {
  const { mongo, read } = await storeMessages(t, ['a*4', 'b*1']);
  const change = (key: string, set: object) => mongo.db.collection(COMMANDS).updateOne({ key }, { $set: set });
  await change('a0', { status: 'DONE' });
  await change('a1', { queue: 'upkeep:publish' });
  await change('a2', { nextRunAt: new Date(NOW + 1) });
  t.equal(await read(10), 'b0 a3');
});

t.test('each read walks the index of its queue', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const read = openDueReader(mongo, 'classifier');
  const open = (organizationId: string) =>
    newCommand({
      queue: 'classifier',
      key: organizationId,
      subject: 'job',
      organizationId,
      body: {},
      maxAttempts: 3,
      now: 0,
    });
  await mongo.db.collection(COMMANDS).insertMany([open('a'), open('b')] as never[]);
  for (let n = 0; n < 3; n++) await read(NOW, 1);
  await noneScans(t, mongo, seen, 2);
  // The stand-in in Python shows a filter with a second condition as a scan.
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values())
    t.match((await planOf(mongo, filter)).at(-1), 'IXSCAN due_in_turns_classifier', filter.shape);
});

let count = 0;

async function postSettlement(runInMs: number) {
  const now = Date.now();
  const order = settlementOrder({ _id: `preview-${count++}`, key: 'k' });
  return (await postCommand(mongo, newCommand({ ...order, maxAttempts: 5, now, runAt: now + runInMs }))).command;
}

type Settlement = CommandRef<'settlement'>;
const makeDue = (command: Settlement) => makeDueNow(mongo, command);
const claimSettlement = (command: Settlement) => claimCommand(mongo, command, { workerId: 'worker-1', leaseMs: HOUR });

t.test('makeDueNow makes a command that backs off due at once and adds one attempt', async (t) => {
  const waiting = await postSettlement(HOUR);
  const { _id } = waiting;
  t.match(await claimSettlement(waiting), { kind: 'refused' });
  const changed = await makeDue(waiting);
  t.match(changed, { _id, status: 'PENDING', attempts: 0, maxAttempts: 6, fence: 0 });
  t.match(
    await makeDue(waiting),
    { maxAttempts: 6, nextRunAt: changed?.nextRunAt },
    'once, however often it is called',
  );
  t.match(await claimSettlement(waiting), { kind: 'claimed', command: { attempts: 1 } });
});

t.test('makeDueNow leaves a due, leased or settled command unchanged', async (t) => {
  const due = await postSettlement(-1_000);
  t.match(await makeDue(due), { nextRunAt: due.nextRunAt, maxAttempts: 5 });
  const claimed = await claimSettlement(due);
  if (claimed.kind !== 'claimed') throw new Error(`it was ${claimed.kind}`);
  const { command } = claimed;
  const { lockedUntil, nextRunAt } = command;
  t.match(await makeDue(due), { lockedUntil, nextRunAt, maxAttempts: 5, attempts: 1 }, 'the lease is not shortened');
  await settleCommand(mongo, command, { to: 'DEAD', error: { fingerprint: 'Error: x', message: 'x' } });
  t.match(await makeDue(due), { status: 'DEAD', maxAttempts: 5 });
  t.equal(await makeDue({ ...due, _id: 'nothing' }), null);
});

type Message = CommandOf<'upkeep:webhooks'>;
type Next = NextState<'upkeep:webhooks'>;

const DONE = { to: 'DONE', result: { status: 204 } } as const satisfies Next;
const DEAD = { to: 'DEAD', error: { fingerprint: 'Error', message: 'no answer' } } as const satisfies Next;
const HOLDER = { workerId: 'worker-1', leaseMs: 60_000 };

async function claimMessage(): Promise<Message> {
  const claim = await claimCommand(mongo, (await postMessage(mongo, newId())) as Message, HOLDER);
  if (claim.kind !== 'claimed') throw new Error(`the claim is ${claim.kind}`);
  return claim.command as Message;
}

const settled = async (next: Next) => {
  const command = await claimMessage();
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
  t.match(await claimCommand(mongo, command, HOLDER), {
    kind: 'dead',
    command: { body: { studentId: undefined } },
  });
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
