import t from 'tap';
import { COMMANDS, DELIVERIES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { TRANSACTION } from '#infra/mongo/transaction.ts';
import { newId } from '#shared/kernel/ids.ts';
import { auditOrder } from '#shared/notification/commands.ts';
import { MAX_AT_ONCE } from '#shared/notification/fan-out.ts';
import { sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { countCommands } from '#testing/stores/plans.ts';
import { notificationEvents, notifications } from './collections.ts';
import { findEvent, idsOfFanOut, type NewFanOut } from './fan-out.ts';
import { openIntakeStore } from './intake-store.ts';

const mongo = await openTestMongo(t);
const sent = countCommands(mongo, ({ commandName, command }) => `${commandName} ${command[commandName]}`);
const store = openIntakeStore(mongo);

/** Returns a notice to one student, with a delivery and a copy for the audit service. */
function notice(change: Partial<NewFanOut> = {}): NewFanOut {
  const fanOut = sampleFanOut({ rows: 1, channels: new Set(['log']) });
  const audit = newCommand({ ...auditOrder(fanOut.fanOutId), maxAttempts: 3, now: fanOut.now });
  return { ...fanOut, audit, ...change };
}

/** Returns how many rows of each kind are stored of a fan-out. */
async function storedOf({ fanOutId, rows }: NewFanOut) {
  const [id] = rows.map(({ _id }) => _id);
  return {
    events: await notificationEvents(mongo).countDocuments({ _id: fanOutId }),
    rows: (await idsOfFanOut(mongo, fanOutId)).length,
    jobs: await mongo.db.collection(DELIVERIES).countDocuments({ 'body.notificationId': id }),
    audits: await mongo.db.collection(COMMANDS).countDocuments(auditOrder(fanOutId)),
  };
}

const WHOLE = { events: 1, rows: 1, jobs: 1, audits: 1 };
const NONE = { events: 0, rows: 0, jobs: 0, audits: 0 };

t.test('events of the same moment share one transaction, each with its own rows and jobs', async (t) => {
  const all = Array.from({ length: 7 }, () => notice());
  sent.taken();
  const made = await Promise.all(all.map(store.insert));
  t.strictSame(
    sent.taken().filter((name) => !name.startsWith('endSessions')),
    [
      'insert notification_events',
      'insert notifications',
      'insert commands',
      'insert notification_deliveries',
      'commitTransaction 1',
    ],
  );
  for (const [n, fanOut] of all.entries()) {
    const key = `${fanOut.rows[0]?._id}:log`;
    t.match(made[n], { kind: 'made', ring: [{ queue: 'delivery:log', key }] }, 'its own ring');
    t.strictSame(await storedOf(fanOut), WHOLE);
  }
});

t.test('of two equal events of the same moment one is made, and the other is its replay', async (t) => {
  const [first, other] = [notice(), notice()];
  const twin = notice();
  const same = { sourceService: first.event?.sourceService ?? null, sourceEventId: first.event?.sourceEventId ?? null };
  if (twin.event === null) throw new Error('a notice without its event');
  const all = [first, other, { ...twin, event: { ...twin.event, ...same } }];
  const made = await Promise.all(all.map(store.insert));

  t.equal(made[1]?.kind, 'made');
  t.strictSame([made[0]?.kind, made[2]?.kind].sort(), ['made', 'replayed']);
  const winner = made[0]?.kind === 'made' ? first : twin;
  const replay = made.find(({ kind }) => kind === 'replayed');
  t.match(replay, { event: { _id: winner.fanOutId } }, 'the replay names the event that was made');
  t.strictSame(await storedOf(winner), WHOLE);
  t.strictSame(await storedOf(winner === first ? twin : first), NONE);
  t.strictSame(await storedOf(other), WHOLE);
});

t.test('an event that MongoDB refuses undoes none of the others', async (t) => {
  const [first, bad, last] = [notice(), notice(), notice()];
  const replayed = notice();
  await store.insert(replayed);
  const [taken] = replayed.rows;
  const refused = { ...bad, rows: bad.rows.map((row) => ({ ...row, _id: taken?._id ?? '' })) };
  const outcomes = await Promise.allSettled([first, refused, replayed, last].map(store.insert));
  t.match(outcomes, [
    { value: { kind: 'made' } },
    { reason: { code: 11_000 } },
    { value: { kind: 'replayed', event: { _id: replayed.fanOutId } } },
    { value: { kind: 'made' } },
  ]);
  for (const whole of [first, replayed, last]) t.strictSame(await storedOf(whole), WHOLE);
  t.equal(await notificationEvents(mongo).countDocuments({ _id: refused.fanOutId }), 0);
});

t.test('an event that an open transaction holds up delays none of the others', async (t) => {
  const [first, held, last] = [notice(), notice(), notice()];
  await mongo.client.withSession(async (session) => {
    session.startTransaction(TRANSACTION);
    const { event } = held;
    if (event === null) throw new Error('a notice without its event');
    const earlier = { ...event, _id: newId() };
    await notificationEvents(mongo).insertOne(earlier, { session });

    let isHeld = true;
    const waiting = store.insert(held).finally(() => {
      isHeld = false;
    });
    const others = await Promise.all([first, last].map(store.insert));
    t.match(others, [{ kind: 'made' }, { kind: 'made' }]);
    t.ok(isHeld, 'the others are stored first');
    await session.commitTransaction();
    t.match(await waiting, { kind: 'replayed', event: { _id: earlier._id } });
  });
  for (const whole of [first, last]) t.strictSame(await storedOf(whole), WHOLE);
  t.strictSame(await storedOf(held), NONE);
});

t.test('a large fan-out and a long text share a transaction with none', async (t) => {
  const large = sampleFanOut({ rows: 100 });
  const long = sampleFanOut({ rows: 1 });
  const texts = { ...long, rows: long.rows.map((row) => ({ ...row, content: 'x'.repeat(100_000) })) };
  const staged = sampleFanOut({ rows: MAX_AT_ONCE + 1 });
  const small = [notice(), notice()];
  sent.taken();
  const made = await Promise.all([...small, large, texts, staged].map(store.insert));
  t.ok(made.every(({ kind }) => kind === 'made'));
  t.equal(sent.taken().filter((name) => name.startsWith('commitTransaction')).length, 4);
  for (const { fanOutId, rows } of [large, texts, staged]) {
    t.equal(await notifications(mongo).countDocuments({ fanOutId }), rows.length);
  }
});

t.test('reads of the same moment share their commands, and each finds what it finds alone', async (t) => {
  const source = { sourceService: 'exam-service', sourceEventId: newId(), actorId: null };
  const events = [
    source,
    { ...source, sourceService: 'admin-service' },
    { ...source, actorId: 'teacher-1' },
    { ...source, actorId: 'teacher-2' },
  ].map(({ actorId, ...pair }) => {
    const { event, ...fanOut } = sampleFanOut({ rows: 1, event: { ...pair, actorId, type: 'x' } });
    if (event === null) throw new Error('a fan-out without its event');
    return { ...fanOut, event: { ...event, replayable: actorId === null, replayableByActor: actorId !== null } };
  });
  for (const fanOut of events) await store.insert(fanOut);
  const keys = [
    source,
    { ...source, sourceEventId: 'unknown' },
    { ...source, sourceService: 'admin-service' },
    { ...source, actorId: 'teacher-1' },
    { ...source, actorId: 'teacher-2' },
    { ...source, actorId: 'teacher-3' },
    source,
  ];
  const alone = [];
  for (const key of keys) alone.push((await findEvent(mongo, key))?._id ?? null);
  t.equal(new Set(alone).size, 5, 'four events and none');
  sent.taken();
  const together = await Promise.all(keys.map(store.findEvent));
  t.strictSame(
    together.map((event) => event?._id ?? null),
    alone,
  );
  t.strictSame(sent.taken(), ['find notification_events']);

  await store.erasedAmong(['user-0']);
  sent.taken();
  const users = Array.from({ length: 6 }, () => `user-${newId()}`);
  await Promise.all(users.map((id) => Promise.all([store.preferencesOf([id]), store.erasedAmong([id])])));
  t.strictSame(sent.taken().sort(), ['find erased_persons', 'find notification_preferences']);
});
