import t from 'tap';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { MAX_AT_ONCE } from '#shared/notification/fan-out.ts';
import { scaled } from '#testing/chance.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { sampleFanOut, stageOnly } from '#testing/stored/stored-notifications.ts';
import { lateShard, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { despiteOutages, until } from '#testing/until.ts';
import { fanOuts, NOTIFICATION_EVENTS, notificationEvents, notifications } from './collections.ts';
import { findEvent, idsOfFanOut, insertFanOut } from './fan-out.ts';
import { readConsistently } from './inbox.ts';
import { abandonFanOut, FanOutLost, openFanOut, orphanedFanOuts, publishFanOut, stageRows } from './stage-fan-out.ts';

/** A fan-out of three chunks. */
const STAGED = 25;
const rowsAtOnce = 10;
/** Rows that readers must see at once: more than two chunks of the usual size. An event has up to 10,000. */
const ROWS = scaled(2 * MAX_AT_ONCE + 1, 10_000);

/** Returns the numbers of stored documents, and of rows that a reader finds. */
async function stored(mongo: TestMongo) {
  const [rows, events, jobs, finishes, visible] = await Promise.all([
    notifications(mongo).countDocuments({}),
    notificationEvents(mongo).countDocuments({}),
    mongo.db.collection(DELIVERIES).countDocuments({}),
    mongo.db.collection('commands').countDocuments({ queue: 'upkeep:fanouts' }),
    readConsistently(mongo, (place) => notifications(mongo).countDocuments({ place })),
  ]);
  return { rows, events, jobs, finishes, visible };
}

/** Deletes all stored documents, which costs less than another database with all indexes. */
async function empty(mongo: TestMongo): Promise<void> {
  for (const collection of await mongo.db.collections()) await collection.deleteMany({});
}

const NOTHING = { rows: 0, events: 0, jobs: 0, finishes: 0, visible: 0 };

t.test('a failing row leaves nothing: a late one of one chunk, and one beyond the first chunks', async (t) => {
  const atOnce = scaled(200, MAX_AT_ONCE);
  for (const [failing, sample] of [
    [atOnce * 0.9, { rows: atOnce }],
    [STAGED - 2, { rows: STAGED, rowsAtOnce }],
  ] as const) {
    const mongo = await openTestMongo(t);
    const fanOut = sampleFanOut({ ...sample, channels: new Set(['log']) });
    const [first, bad] = [fanOut.rows[0], fanOut.rows[failing]];
    if (first === undefined || bad === undefined) throw new Error('too few rows');
    bad._id = first._id;
    const refused = await insertFanOut(mongo, fanOut).catch((error: unknown) => error);
    t.ok(isDuplicateKey(refused), String(refused));
    t.strictSame(await stored(mongo), NOTHING, `${sample.rows} rows`);
    t.equal(await fanOuts(mongo).countDocuments({}), 0);
  }
});

t.test('event, rows and one job per row and channel commit together', async (t) => {
  const mongo = await openTestMongo(t);
  const fanOut = sampleFanOut({ rows: 3, channels: new Set(['log', 'webhook']) });
  const inserted = await insertFanOut(mongo, fanOut);
  t.equal(inserted.kind === 'made' && inserted.ring.length, 6);
  t.strictSame(await stored(mongo), { rows: 3, events: 1, jobs: 6, finishes: 0, visible: 3 });
  t.strictSame(
    await idsOfFanOut(mongo, fanOut.fanOutId),
    fanOut.rows.map(({ _id }) => _id),
  );
});

t.test('fifty concurrent inserts of one event make one set of rows, staged or not', async (t) => {
  for (const sample of [{ rows: 20 }, { rows: STAGED, rowsAtOnce }]) {
    const mongo = await openTestMongo(t);
    const event = { sourceService: 'exam-service', sourceEventId: 'e-1', type: 'exam.assigned.notification.v1' };
    const made = await Promise.all(
      Array.from({ length: 50 }, () => despiteOutages(() => insertFanOut(mongo, sampleFanOut({ ...sample, event })))),
    );
    t.equal(made.filter(({ kind }) => kind === 'made').length, 1, `${sample.rows} rows`);
    t.match(await stored(mongo), { rows: sample.rows, events: 1, visible: sample.rows });
    const winner = await findEvent(mongo, { ...event, actorId: null });
    t.equal((await idsOfFanOut(mongo, winner?._id ?? '')).length, sample.rows);
    t.equal(await fanOuts(mongo).countDocuments({}), 'rowsAtOnce' in sample ? 1 : 0, 'the losing fan-outs are undone');
  }
});

t.test("events without a source pair are never replays, and a pair is one service's own", async (t) => {
  const mongo = await openTestMongo(t);
  for (let n = 0; n < 3; n++) await insertFanOut(mongo, sampleFanOut({ rows: 1, event: { type: 'x.v1' } }));
  for (const sourceService of ['exam-service', 'admin-service']) {
    t.ok(
      await insertFanOut(mongo, sampleFanOut({ rows: 1, event: { sourceService, sourceEventId: 'same', type: 'x' } })),
    );
  }
  t.match(await stored(mongo), { rows: 5, events: 5 });
});

t.test('readers see all rows of a staged fan-out or none, while it is made', { timeout: 500_000 }, async (t) => {
  const mongo = await openTestMongo(t);
  const seen = new Set<number>();
  let making = true;
  async function read(): Promise<void> {
    while (making) seen.add(await readConsistently(mongo, (place) => notifications(mongo).countDocuments({ place })));
  }
  const readers = [read(), read()];
  // Set the time ahead: a slow machine may need more than a minute and a half to stage the rows.
  const fanOut = sampleFanOut({ rows: ROWS, now: Date.now() + 600_000 });
  t.match(await insertFanOut(mongo, fanOut), { kind: 'made' }, 'no reader aborts the fan-out');
  making = false;
  await Promise.all(readers);
  seen.add(await readConsistently(mongo, (place) => notifications(mongo).countDocuments({ place })));
  t.strictSame(
    [...seen].sort((a, b) => a - b),
    [0, ROWS],
  );
});

t.test('a process that dies at any write shows readers all or nothing, and a repeat makes it once', async (t) => {
  const event = { sourceService: 'exam-service', sourceEventId: 'e-1', type: 'exam.assigned.notification.v1' };
  const rows = STAGED;
  const mongo = await openTestMongo(t);
  for (const when of ['before', 'after'] as const) {
    for (let point = 1; ; point++) {
      await empty(mongo);
      const dying = dyingProcess(mongo, point, when);
      const first = sampleFanOut({ rows, event, rowsAtOnce });
      const result = await insertFanOut(dying.mongo, first).catch((error: Error) => error);
      if (dying.diedAt() === null) {
        t.ok(point > 8, `${point - 1} points`);
        break;
      }
      const { visible, events } = await stored(mongo);
      t.ok(visible === 0 || visible === rows, `${when} write ${point}: ${visible} rows are seen`);
      t.equal(events, visible / rows, 'the event is there with its rows');
      const again = await insertFanOut(mongo, sampleFanOut({ rows, event, rowsAtOnce, stalledMs: 1 }));
      t.equal(
        again.kind === 'replayed',
        visible > 0,
        `${when} write ${point}: ${result instanceof Error ? 'died' : 'ended'}`,
      );
      // The sweep deletes the rows of the dead process, which no reader has seen.
      for (const lost of await orphanedFanOuts(mongo, Date.now() + 120_000, 10)) await abandonFanOut(mongo, lost);
      t.match(await stored(mongo), { rows, events: 1, visible: rows, finishes: 1 });
    }
  }
});

t.test('an abandoned, late or incomplete fan-out is neither staged further nor published', async (t) => {
  const mongo = await openTestMongo(t);
  const swept = sampleFanOut({ rows: STAGED, rowsAtOnce });
  await stageOnly(mongo, swept);
  t.strictSame(await abandonFanOut(mongo, swept.fanOutId), { kind: 'abandoned' });
  await t.rejects(stageRows(mongo, swept), FanOutLost);
  await t.rejects(publishFanOut(mongo, swept), FanOutLost);
  t.strictSame(await stored(mongo), NOTHING);

  const lacking = sampleFanOut({ rows: STAGED, rowsAtOnce });
  await stageOnly(mongo, { ...lacking, rows: lacking.rows.slice(1) });
  await t.rejects(publishFanOut(mongo, lacking), FanOutLost);
  await abandonFanOut(mongo, lacking.fanOutId);
  t.strictSame(await stored(mongo), NOTHING);

  const late = sampleFanOut({ rows: STAGED, rowsAtOnce, now: Date.now() - 100_000 });
  await t.rejects(insertFanOut(mongo, late), FanOutLost, 'the clock of MongoDB determines that it is late');
  t.strictSame(await stored(mongo), NOTHING);

  const published = sampleFanOut({ rows: STAGED, rowsAtOnce });
  await insertFanOut(mongo, published);
  t.strictSame(
    await abandonFanOut(mongo, published.fanOutId),
    { kind: 'unchanged' },
    'a published fan-out cannot be abandoned',
  );
  t.match(await stored(mongo), { visible: STAGED });
});

t.test('an insert of an event that is being staged stages nothing while the first makes progress', async (t) => {
  const mongo = await openTestMongo(t);
  const event = { sourceService: 'exam-service', sourceEventId: 'e-1', type: 'exam.assigned.notification.v1' };
  const now = Date.now();
  const first = sampleFanOut({ rows: STAGED, rowsAtOnce, event, now });
  const second = sampleFanOut({ rows: STAGED, rowsAtOnce, event, now: now + 1, stalledMs: 300_000 });
  const source = 'exam-service:e-1';
  await openFanOut(mongo, { fanOutId: first.fanOutId, source, rows: STAGED, now });
  const replay = insertFanOut(mongo, second);
  await until('the second insert has begun', async () => (await fanOuts(mongo).countDocuments({})) === 2);
  await stageRows(mongo, first);
  t.equal(await notifications(mongo).countDocuments({}), STAGED, 'the second insert has staged no row');
  await publishFanOut(mongo, first);
  t.match(await replay, { kind: 'replayed', event: { _id: first.fanOutId } });
  t.equal(await fanOuts(mongo).countDocuments({}), 1, 'the second fan-out is deleted');

  const other = { ...event, sourceEventId: 'e-2' };
  await stageOnly(mongo, sampleFanOut({ rows: STAGED, rowsAtOnce, event: other, now }));
  const stalled = sampleFanOut({ rows: STAGED, rowsAtOnce, event: other, now: now + 1, stalledMs: 300 });
  t.match(await insertFanOut(mongo, stalled), { kind: 'made' }, 'a stalled fan-out does not block the next one');
});

t.test('a duplicate returns the earlier event as soon as a majority has it', async (t) => {
  const mongo = await openTestMongo(t);
  const event = { sourceService: 'exam-service', sourceEventId: 'e-1', type: 'exam.assigned.notification.v1' };
  const first = sampleFanOut({ rows: 1, event });
  await insertFanOut(mongo, first);
  let unknown = 2;
  const db = tappedDb(mongo, (method, name, collection) =>
    name === 'findOne' && collection === NOTIFICATION_EVENTS
      ? async (...args) => (unknown-- > 0 ? null : method(...args))
      : undefined,
  );
  const again = await insertFanOut({ ...mongo, db }, sampleFanOut({ rows: 1, event }));
  t.match(again, { kind: 'replayed', event: { _id: first.fanOutId } });
});

t.test('a replayed batch names all rows although their shards do not show them yet', async (t) => {
  const mongo = await openTestMongo(t);
  const fanOut = sampleFanOut({ rows: 3 });
  await insertFanOut(mongo, fanOut);
  const late = lateShard(mongo, { [notifications(mongo).collectionName]: () => null });
  t.strictSame(
    await idsOfFanOut(late.mongo, fanOut.fanOutId),
    fanOut.rows.map(({ _id }) => _id),
  );
});
