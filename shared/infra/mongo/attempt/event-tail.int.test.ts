import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptEvent, AttemptKey } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP } from '#shared/attempt/limits.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { findAttempt } from './attempts.ts';
import { attempts, eventRows } from './collections.ts';
import { openEventTails } from './event-tail.ts';
import { allEvents, newestEvents } from './events.ts';
import { saveAnswer, saveAnswerWithRows } from './save-answer.ts';

const mongo = await openTestMongo(t);
const HOUR_MS = 3_600_000;

/** Stores an attempt whose tail has this many events; the metadata of each is its number. */
function storeLog(length: number): Promise<Attempt> {
  const events = Array.from(
    { length },
    (_, index): AttemptEvent => ({ seq: index + 1, type: 'START', metadata: `${index + 1}`, createdAt: new Date(0) }),
  );
  return storeAttempt(mongo, { events, eventSeq: length, deadlineAt: new Date(Date.now() + HOUR_MS) });
}

const writeTo = (attempt: AttemptKey) => ({
  attempt,
  paperIndex: 0,
  content: { selected: ['a'] },
  bytes: 18,
  clientVersion: 0,
  metadata: (serverVersion: number) => ({ serverVersion }),
});

/** Returns a front door's way to save: one that remembers which events have rows, and waits for its copies. */
function saverOn(on: Mongo) {
  const tails = openEventTails(on);
  return async (attempt: AttemptKey): Promise<Attempt> => {
    const result = await saveAnswer(on, writeTo(attempt), { movedTo: tails.movedTo(attempt._id) });
    if (result.kind !== 'saved') throw new Error(`the save was ${result.kind}`);
    const saved = result.stored.whole();
    tails.seen(saved);
    await tails.idle();
    return saved;
  };
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** Checks that readers get each event of the log once, in order, with its metadata. */
async function checkLog(key: AttemptKey, about: string): Promise<Attempt> {
  const attempt = await findAttempt(mongo, key);
  if (attempt === null) throw new Error('the attempt is gone');
  const all: AttemptEvent[] = [];
  for await (const event of allEvents(mongo, attempt)) all.push(event);
  t.strictSame(
    all.map(({ seq }) => seq),
    range(1, attempt.eventSeq),
    `${about}: the whole log`,
  );
  t.ok(
    all.every(({ type, seq, metadata }) => type !== 'START' || metadata === `${seq}`),
    'with its metadata',
  );
  const newest = await newestEvents(mongo, attempt, 50);
  t.strictSame(
    newest.map(({ seq }) => seq),
    range(Math.max(1, attempt.eventSeq - 49), attempt.eventSeq),
    about,
  );
  return attempt;
}

const rowsOfLog = (attemptId: string) => eventRows(mongo).countDocuments({ attemptId });

t.test('a long tail is copied to rows, and the next save drops the copies', async () => {
  const log = await storeLog(EVENT_TAIL_CAP - 1);
  const save = saverOn(mongo);
  t.equal((await save(log)).events.length, EVENT_TAIL_CAP);
  t.equal(await rowsOfLog(log._id), EVENT_TAIL_CAP - EVENT_TAIL_KEEP, 'these events are in both places');
  await checkLog(log, 'between the steps');
  t.equal((await save(log)).events.length, EVENT_TAIL_KEEP + 1);
  await checkLog(log, 'after the roll');
});

t.test('a process that dies at any step of a roll loses and doubles no event', async () => {
  // The writes: a save that fills the tail, the copy, and the save that drops the copies.
  for (const point of [1, 2, 3]) {
    for (const when of ['before', 'after'] as const) {
      const log = await storeLog(EVENT_TAIL_CAP - 1);
      const dying = dyingProcess(mongo, point, when);
      const save = saverOn(dying.mongo);
      await t.rejects(async () => {
        for (;;) await save(log);
      }, /the process is dead/);
      t.match(dying.diedAt(), point === 2 ? `${when} insertMany` : `${when} findOneAndUpdate`);
      await checkLog(log, `died ${dying.diedAt()}`);
      const next = saverOn(mongo);
      for (let n = 0; n < 3; n++) await next(log);
      const { events } = await checkLog(log, 'continued by another process');
      t.ok(events.length < EVENT_TAIL_CAP, `${events.length} events are left in the tail`);
    }
  }
});

t.test('a copy that stored only some rows is completed by the next one', async () => {
  const log = await storeLog(EVENT_TAIL_CAP - 1);
  const db = tappedDb(mongo, (method, name) =>
    name !== 'insertMany'
      ? undefined
      : async (rows, options) => {
          await method((rows as unknown[]).slice(0, 7), options);
          throw new Error('the disk is full');
        },
  );
  await saverOn({ ...mongo, db })(log);
  t.equal(await rowsOfLog(log._id), 7);
  const save = saverOn(mongo);
  t.equal((await save(log)).events.length, EVENT_TAIL_CAP + 1, 'nothing is dropped that has no row');
  t.ok((await save(log)).events.length < EVENT_TAIL_CAP);
  await checkLog(log, 'completed');
});

t.test('two processes that roll the same tail at once lose and double no event', async () => {
  const log = await storeLog(EVENT_TAIL_CAP - 3);
  const doors = [saverOn(mongo), saverOn(mongo)];
  await Promise.all(range(0, 59).map((n) => doors[n % 2]?.(log)));
  await checkLog(log, 'raced');
  for (const save of [...doors, ...doors]) await save(log);
  const { eventSeq, events } = await checkLog(log, 'rolled');
  t.equal(eventSeq, EVENT_TAIL_CAP - 3 + 64);
  t.ok(events.length < EVENT_TAIL_CAP, `${events.length} events are left in the tail`);
});

t.test('a transaction moves events whose rows exist already', async () => {
  const log = await storeLog(EVENT_TAIL_CAP);
  await openEventTails(mongo).makeRoom(log);
  const result = await saveAnswerWithRows(mongo, writeTo(log), 5_000, Date.now);
  t.match(result, { kind: 'saved', attempt: { events: { length: EVENT_TAIL_KEEP + 1 } } });
  await checkLog(log, 'rolled by a transaction');
});

t.test('a transaction is repeated if a row of its own is copied after its snapshot', async () => {
  const log = await storeLog(EVENT_TAIL_CAP);
  let copies = 0;
  const db = tappedDb(mongo, (method, name) =>
    name !== 'bulkWrite'
      ? undefined
      : async (...args) => {
          if (copies++ === 0) await openEventTails(mongo).makeRoom(log);
          return method(...args);
        },
  );
  t.match(await saveAnswerWithRows({ ...mongo, db }, writeTo(log), 5_000, Date.now), { kind: 'saved' });
  t.equal(copies, 2, 'the first run met the new rows');
  await checkLog(log, 'repeated');
});

t.test('a copy never replaces a row, so that what an erasure has emptied stays empty', async () => {
  const log = await storeLog(EVENT_TAIL_CAP);
  await openEventTails(mongo).makeRoom(log);
  await eventRows(mongo).updateMany({ attemptId: log._id }, { $set: { metadata: '{}' } });
  await openEventTails(mongo).makeRoom(log);
  t.equal(await eventRows(mongo).countDocuments({ attemptId: log._id, metadata: { $ne: '{}' } }), 0);
});

t.test('a copy that MongoDB refuses is forgotten, and reported to a write that needs the room', async () => {
  const log = await storeLog(EVENT_TAIL_CAP);
  const db = tappedDb(mongo, (_, name) => (name === 'insertMany' ? () => Promise.reject(new Error('no')) : undefined));
  const tails = openEventTails({ ...mongo, db });
  tails.seen(log);
  await tails.idle();
  t.equal(tails.movedTo(log._id), 0);
  await t.rejects(tails.makeRoom(log), { message: 'no' });
  t.equal((await attempts(mongo).findOne({ _id: log._id }))?.events.length, EVENT_TAIL_CAP);
});
