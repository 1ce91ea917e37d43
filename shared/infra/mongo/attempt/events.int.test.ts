import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import type { Attempt, AttemptEvent, AttemptKey } from '#shared/attempt/attempt.ts';
import { EVENT_TAIL_CAP, EVENT_TAIL_KEEP, EVENT_TAIL_LIMIT } from '#shared/attempt/limits.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { lateShard, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAttempt } from './attempts.ts';
import { attempts, eventRows } from './collections.ts';
import { eventRow, openEventTails } from './event-tail.ts';
import { allEvents, appendClientEvent, openEventReads } from './events.ts';
import { gradeWrites } from './grade.ts';
import { saveAnswer, saveAnswerWithRows } from './save-answer.ts';

const mongo = await openTestMongo(t);
const LIMITS = { budgetMs: 5_000, now: Date.now };

/** Stores an attempt whose tail has this many events; the metadata of each is its number. */
function storeLog(length: number): Promise<Attempt> {
  const events = Array.from(
    { length },
    (_, index): AttemptEvent => ({ seq: index + 1, type: 'START', metadata: `${index + 1}`, createdAt: new Date(0) }),
  );
  return storeAttempt(mongo, { events, eventSeq: length, deadlineAt: new Date(Date.now() + HOUR) });
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
  const read = openEventReads(mongo);
  const limits = [50, 30, 2];
  // Readers of the same moment share one command, and each gets its own part.
  for (const [index, newest] of (await Promise.all(limits.map((limit) => read(attempt, limit)))).entries()) {
    const of = (events: readonly AttemptEvent[]) => events.map(({ seq, type, metadata }) => [seq, type, metadata]);
    t.strictSame(of(newest), of(all.slice(-(limits[index] ?? 0))), `${about}: the newest ${limits[index]}`);
  }
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

t.test('a grade leaves a tail in the attempt that a save would move, until it is full', async (t) => {
  const grade = (attempt: Attempt) =>
    inTransaction(mongo, 5 * SECOND, (session) =>
      applyWrites(
        mongo,
        gradeWrites({
          attempt: { ...attempt, status: 'SUBMITTED' },
          grading: atOnce(gradeAttempt(samplePaper(), attempt.answers)),
          event: { type: 'SUBMIT', metadata: '{}', createdAt: new Date() },
        }),
        session,
      ),
    );
  for (const [length, left] of [
    [EVENT_TAIL_CAP, EVENT_TAIL_CAP + 1],
    [EVENT_TAIL_LIMIT, EVENT_TAIL_KEEP + 1],
  ] as const) {
    const log = await storeLog(length);
    await attempts(mongo).updateOne({ _id: log._id }, { $set: { status: 'SUBMITTED' } });
    await grade(log);
    t.equal((await checkLog(log, `graded with ${length} events`)).events.length, left);
    t.equal(await rowsOfLog(log._id), length + 1 - left, 'rows');
  }
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

t.test('an append returns its event, also from a reply that contains the whole document', async (t) => {
  // If the driver resends a findAndModify that has already succeeded, MongoDB replies with the whole document.
  const db = tappedDb(mongo, (method, name) =>
    name !== 'findOneAndUpdate'
      ? undefined
      : (filter, update, options) => method(filter, update, { ...(options as object), projection: {} }),
  );
  const attempt = await storeAttempt(mongo, { deadlineAt: null });
  for (const through of [mongo, { ...mongo, db }]) {
    for (const metadata of ['{"n":1}', '{"n":2}']) {
      const write = { attempt, type: 'QUESTION_VIEW' as const, metadata };
      t.match(await appendClientEvent(through, openEventTails(through), write, LIMITS), {
        kind: 'appended',
        event: { metadata },
      });
    }
  }
});

t.test('an event is never dated before the event that it follows', async (t) => {
  const ahead = new Date(Date.now() + HOUR);
  const attempt = await storeAttempt(mongo, { deadlineAt: new Date(Date.now() + 9 * HOUR) });
  // Written by a primary whose clock was an hour ahead of the clock of the next primary.
  await attempts(mongo).updateOne(
    { _id: attempt._id },
    { $set: { events: [{ seq: 1, type: 'START', metadata: '{}', createdAt: ahead }], eventSeq: 1 } },
  );
  t.equal((await saveAnswer(mongo, writeTo(attempt))).kind, 'saved');
  t.equal((await saveAnswerWithRows(mongo, writeTo(attempt), 5_000, Date.now)).kind, 'saved');
  const write = { attempt, type: 'QUESTION_VIEW' as const };
  const append = async (metadata: string) => {
    const appended = await appendClientEvent(mongo, openEventTails(mongo), { ...write, metadata }, LIMITS);
    return appended.kind === 'appended' ? appended.event : null;
  };
  const short = await append('{}');
  const long = await append(`"${'x'.repeat(5_000)}"`);
  t.same([short?.createdAt, long?.createdAt], [ahead, ahead]);

  const stored = await attempts(mongo).findOne({ _id: attempt._id });
  t.same(
    stored?.events.slice(-4).map(({ createdAt }) => createdAt),
    [ahead, ahead, ahead, ahead],
  );
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { events: [] } });
  const first = await append('{}');
  t.ok(first !== null && Math.abs(first.createdAt.getTime() - Date.now()) < HOUR / 2, 'the first event is dated now');
});

/** Stores an attempt with four events, of which the older two have rows alone, and hides the rows from plain reads. */
async function openLateRows() {
  const events = [1, 2, 3, 4].map(
    (seq) => ({ seq, type: 'START', metadata: '{}', createdAt: new Date() }) as AttemptEvent,
  );
  const attempt = await storeAttempt(mongo, { events: events.slice(2), eventSeq: 4 });
  await eventRows(mongo).insertMany(events.slice(0, 2).map((event) => eventRow(attempt._id, event)));
  return { attempt, late: lateShard(mongo, { [eventRows(mongo).collectionName]: () => null }) };
}

t.test('the newest events are complete although the shard of their rows does not show them yet', async (t) => {
  const { attempt, late } = await openLateRows();
  const found = await openEventReads(late.mongo)(attempt, 50);
  t.strictSame(
    found.map(({ seq }) => seq),
    [1, 2, 3, 4],
  );
});

t.test('a whole log is complete although the shard of its rows does not show them yet', async (t) => {
  const { attempt, late } = await openLateRows();
  const all: number[] = [];
  for await (const { seq } of allEvents(late.mongo, attempt)) all.push(seq);
  t.strictSame(all, [1, 2, 3, 4]);
});
