import t from 'tap';
import { idsOfFanOut, insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import { sampleFanOut } from '#testing/stored/sample-fan-out.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { lateShard } from '#testing/stores/late-shard.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAttempt, textRowId } from './attempt/attempts.ts';
import { attempts, eventRows, textRows } from './attempt/collections.ts';
import { eventRow } from './attempt/event-tail.ts';
import { allEvents, newestEvents } from './attempt/events.ts';
import { notifications } from './notification/collections.ts';

const mongo = await openTestMongo(t);
const missing = () => null;

/** Stores an attempt with four events, of which the older two have rows alone. */
async function attemptWithRows(): Promise<Attempt> {
  const events = [1, 2, 3, 4].map(
    (seq) => ({ seq, type: 'START', metadata: '{}', createdAt: new Date() }) as AttemptEvent,
  );
  const attempt = await storeAttempt(mongo, { events: events.slice(2), eventSeq: 4 });
  await eventRows(mongo).insertMany(events.slice(0, 2).map((event) => eventRow(attempt._id, event)));
  return attempt;
}

t.test('the newest events are complete although the shard of their rows does not show them yet', async (t) => {
  const attempt = await attemptWithRows();
  const late = lateShard(mongo, { [eventRows(mongo).collectionName]: missing });
  const found = await newestEvents(late.mongo, attempt, 50);
  t.strictSame(
    found.map(({ seq }) => seq),
    [1, 2, 3, 4],
  );
});

t.test('a whole log is complete although the shard of its rows does not show them yet', async (t) => {
  const attempt = await attemptWithRows();
  const late = lateShard(mongo, { [eventRows(mongo).collectionName]: missing });
  const all: number[] = [];
  for await (const { seq } of allEvents(late.mongo, attempt)) all.push(seq);
  t.strictSame(all, [1, 2, 3, 4]);
});

t.test('an attempt is complete although the shard of a long text does not show it yet', async (t) => {
  const attempt = await storeAttempt(mongo);
  const answer = { ...attempt.answers.q1, text: undefined, textRef: true };
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { 'answers.q1': answer } });
  const _id = textRowId(attempt._id, 'q1', attempt.answers.q1?.serverVersion ?? 0);
  await textRows(mongo).insertOne({ _id, attemptId: attempt._id, answerKey: 'q1', text: 'Sông Hương' });
  const late = lateShard(mongo, { [textRows(mongo).collectionName]: missing });
  t.match(await findAttempt(late.mongo, attempt), { answers: { q1: { text: 'Sông Hương' } } });
});

t.test('a replayed batch names all rows although their shards do not show them yet', async (t) => {
  const fanOut = sampleFanOut({ rows: 3 });
  await insertFanOut(mongo, fanOut);
  const late = lateShard(mongo, { [notifications(mongo).collectionName]: missing });
  t.strictSame(
    await idsOfFanOut(late.mongo, fanOut.fanOutId),
    fanOut.rows.map(({ _id }) => _id),
  );
});
