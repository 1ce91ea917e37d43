import t from 'tap';
import { attempts, eventRows } from '#infra/mongo/attempt/collections.ts';
import { eventRow, openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { generations } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { ERASED_PERSONS, erasedPersons, isErased, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { notificationEvents, notifications } from '#infra/mongo/notification/collections.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { DECLARATIONS, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { attemptEvent } from '#shared/attempt/events.ts';
import { EVENT_TAIL_CAP } from '#shared/attempt/limits.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { bulkOrder } from '#shared/operations/bulk-act.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { freshNotification } from '#testing/stored/stored-notifications.ts';
import { MARKER, storePerson, undeclaredFields } from '#testing/stored/stored-person.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { erasePerson } from './erase.ts';
import { exportPerson } from './export.ts';
import { countRows, findPerson } from './find.ts';

const mongo = await openTestMongo(t);
const act = () => ({ operator: 'an', reason: 'request by letter', now: Date.now() });
const countsOf = async (id: string, on: Mongo = mongo) => countRows(on, await findPerson(on, id));

/** Returns the names of the collections in which a text occurs anywhere. */
async function placesOf(...words: string[]): Promise<string[]> {
  const places: string[] = [];
  for (const [name] of DECLARATIONS) {
    const rows = await mongo.db.collection(name).find({}).toArray();
    if (rows.some((row) => words.some((word) => JSON.stringify(row).includes(word)))) places.push(name);
  }
  return places;
}

async function exportOf(id: string, on: Mongo = mongo): Promise<Record<string, Record<string, unknown>[]>> {
  let text = '';
  for await (const part of exportPerson(on, await findPerson(on, id), new Date())) text += part;
  const document = JSON.parse(text);
  t.equal(document.person, id);
  return document.collections;
}

t.test('erasure leaves no trace of a person in any collection, keeps the scores, and returns a receipt', async (t) => {
  const other = await storePerson(mongo);
  const before = await countsOf(other.id);
  const person = await storePerson(mongo);
  const linked = [...new Set(linksBy('person', 'email', 'attempt', 'notification').map((link) => link.collection))];
  t.strictSame(
    linked.filter((name) => !(before.has(name) || name === 'ai_preview_leases')),
    [],
    'the sample has a row behind every link',
  );
  const scored = await attempts(mongo).findOne({ _id: person.attemptId });

  const done = await erasePerson(mongo, person.id, act());
  t.match(done, { kind: 'erased', already: false, tombstone: { state: 'ERASED', pseudonym: null, operator: 'an' } });
  t.strictSame(await placesOf(person.email), [], 'the e-mail occurs nowhere');
  t.strictSame(
    await placesOf(person.id),
    [ERASED_PERSONS],
    'the id occurs in the tombstone alone, until the second pass',
  );
  t.match(await attempts(mongo).findOne({ _id: person.attemptId }), {
    studentId: /^erased-/,
    studentInfo: null,
    totalScore: scored?.totalScore ?? 0,
    answers: { q0: { selected: ['a'], score: 1 }, q1: { text: '' } },
  });
  t.match(done.tombstone.counts, {
    accounts: { deleted: 1 },
    attempts: { pseudonymised: 1 },
    attempt_texts: { deleted: 1 },
    attempt_notices: { deleted: 2 },
    notifications: { deleted: 3, pseudonymised: 1 },
    notification_events: { pseudonymised: 6 },
  });
  const line = await mongo.db.collection(OPERATOR_AUDIT).findOne({ subject: await tombstoneId(mongo, person.id) });
  t.match(line, { action: 'account.person-erase', reason: 'request by letter', operator: 'an' });
  t.strictSame(await countsOf(other.id), before, 'another person keeps every row');
  t.not(await placesOf(MARKER), []);

  const again = await erasePerson(mongo, person.id, { ...act(), operator: 'binh' });
  t.match(again, { kind: 'erased', already: true, tombstone: done.tombstone }, 'a repeat returns the same receipt');
  t.equal(
    await mongo.db.collection(OPERATOR_AUDIT).countDocuments({ subject: await tombstoneId(mongo, person.id) }),
    1,
  );

  await notifications(mongo).insertOne(freshNotification({ userId: person.id }));
  t.match(await erasePerson(mongo, person.id, act()), { already: false }, 'what arrives later is erased by a repeat');
  t.strictSame(await placesOf(person.id), [ERASED_PERSONS]);
});

/** Rows of every collection by their ids; each field as JSON. */
async function allRows(on: Mongo) {
  const all = new Map<string, Record<string, string>>();
  for (const [name] of DECLARATIONS) {
    for await (const row of on.db.collection(name).find({})) {
      const fields = Object.entries(row).map(([field, value]) => [field, JSON.stringify(value)]);
      all.set(`${name} ${row._id}`, Object.fromEntries(fields));
    }
  }
  return all;
}

/** Fields that count or order the changes of a row. */
const BOOKKEEPING = ['stamp', 'erasedAt', 'movedAt'];

t.test('an erasure replaces exactly the fields that the register names, and by what it names', async (t) => {
  const own = await openTestMongo(t, { empty: true });
  const { id } = await storePerson(own);
  const how = { act: 'drop', perSecond: 20, chargeSuperseded: false, counted: 0, operator: 'an' } as const;
  const body = { ...how, reason: 'a test', filter: { subject: id, until: new Date() } };
  const bulk = newCommand({ ...bulkOrder(newId(), body), maxAttempts: 3, now: Date.now() });
  await mailboxOf(own, 'upkeep:deadletters').insertOne(bulk);
  t.strictSame(await undeclaredFields(own.db), [], 'the sample has declared fields only');

  const before = await allRows(own);
  await erasePerson(own, id, act());
  const after = await allRows(own);
  // The id of a seat contains the student's: the row has moved.
  const [moved] = [...after].find(([key]) => key.startsWith('attempt_link_seats ')) ?? [];
  const replaced: Record<string, 'pseudonym' | 'removed'> = {};
  for (const [key, row] of before) {
    const [collection = ''] = key.split(' ');
    const now = after.get(key) ?? (collection === 'attempt_link_seats' ? after.get(moved ?? '') : undefined);
    if (now === undefined) continue;
    for (const field of Object.keys(row).filter((one) => row[one] !== now[one] && !BOOKKEEPING.includes(one))) {
      const place = `${collection}.${field}`;
      // The body of a bulk act gets the pseudonym. Those of all other commands lose their parts about the person.
      if (replaced[place] === 'removed') continue;
      replaced[place] = /erased-/.test(now[field] ?? '') ? 'pseudonym' : 'removed';
    }
  }
  const declared = DECLARATIONS.flatMap(([collection, { fields }]) =>
    Object.entries(fields).map(([field, column]) => [`${collection}.${field}`, column] as const),
  );
  const wanted = declared.filter(([, column]) => column === 'pseudonym' || column === 'removed');
  t.strictSame(replaced, Object.fromEntries(wanted.filter(([place]) => place !== 'erased_persons.pseudonym')));
});

t.test('an export shows an event once that is both in the attempt and in a row', async (t) => {
  const person = await storePerson(mongo);
  const attempt = await attempts(mongo).findOne({ _id: person.attemptId });
  const events = attempt?.events ?? [];
  const inRow = { seq: 3, type: 'TAB_HIDDEN', metadata: '{}', createdAt: new Date(), inRow: true } as const;
  await attempts(mongo).updateOne({ _id: person.attemptId }, { $push: { events: inRow }, $set: { eventSeq: 3 } });
  for (const event of [...events, inRow]) await eventRows(mongo).insertOne(eventRow(person.attemptId, event));
  const exported = await exportOf(person.id);
  t.match(exported.attempts, [{ events: [{ seq: 2 }, { seq: 3, inRow: true }] }]);
  t.strictSame(exported.attempt_events?.map(({ seq }) => seq).sort(), [1, 3]);
});

t.test('a front door that copies events to rows after the erasure stores nothing about the person', async (t) => {
  const person = await storePerson(mongo);
  const attempt = await attempts(mongo).findOne({ _id: person.attemptId });
  const [event] = attempt?.events ?? [];
  if (event === undefined) throw new Error('the tail is empty');
  // The front door has read a tail that is long enough to be rolled.
  const events = Array.from({ length: EVENT_TAIL_CAP }, () => event);
  await erasePerson(mongo, person.id, act());
  await openEventTails(mongo).makeRoom({ _id: person.attemptId, events });
  const rows = await eventRows(mongo).find({ attemptId: person.attemptId }).toArray();
  t.strictSame(
    rows.map(({ metadata }) => metadata),
    ['{}', '{}'],
  );
});

t.test('an export holds every row with its content, and neither secrets nor other people', async (t) => {
  const person = await storePerson(mongo);
  const exported = await exportOf(person.id);
  t.match(exported.accounts, [{ _id: person.id, email: person.email, fullName: MARKER }]);
  t.match(exported.attempts, [{ totalScore: 1, studentInfo: new RegExp(MARKER) }]);
  t.match(exported.attempt_texts, [{ text: MARKER }]);
  t.match(exported.commands, [{ body: { accountId: person.id } }, { body: { handoff: { feedback: MARKER } } }]);
  t.equal(exported.notifications?.length, 3, 'own ones and those about the person, not those of others by the person');
  const text = JSON.stringify(exported);
  t.notMatch(text, /hash-of-|parent-1|teacher-1|student-2|"seed"|"stamp"|"fence"|"workerId"/);
  const readBy = exported.notifications?.map((row) => [row.userId, 'isRead' in row, 'place' in row]);
  const [others, own] = [
    [undefined, false, false],
    [person.id, true, true],
  ];
  t.strictSame(readBy, [own, others, others], 'how another user treats a notification about the person is not shown');

  await attempts(mongo).updateOne({ _id: person.attemptId }, { $set: { 'exam.showResultMode': 'MANUAL' } });
  const hidden = await exportOf(person.id);
  t.match(hidden.attempts, [
    { totalScore: null, correctCount: null, answers: { q0: { isCorrect: null, score: null } } },
  ]);
  t.strictSame(hidden.commands?.[1]?.body, {}, 'remarks wait for the result too');
});

t.test('an export shows the grades of essays without their graders', async (t) => {
  const person = await storePerson(mongo);
  const { attemptId } = person;
  const grade = { questionId: 'essay', score: 1, feedback: MARKER, gradedById: 'teacher-9' };
  const [inTail, inRow] = [3, 4].map((seq) => attemptEvent(seq, 'ESSAY_GRADE_HANDOFF', grade, new Date()));
  if (inTail === undefined || inRow === undefined) throw new Error('an event is missing');
  await attempts(mongo).updateOne({ _id: attemptId }, { $push: { events: inTail } });
  await eventRows(mongo).insertOne(eventRow(attemptId, inRow));
  const exported = await exportOf(person.id);
  const tail = exported.attempts?.flatMap(({ events }) => events as Record<string, unknown>[]) ?? [];
  for (const seq of [3, 4]) {
    const shown = [...tail, ...(exported.attempt_events ?? [])].find((event) => event.seq === seq);
    t.strictSame(JSON.parse(`${shown?.metadata}`), { questionId: 'essay', score: 1, feedback: MARKER });
  }
});

t.test('an export omits a field that the register does not name', async (t) => {
  const person = await storePerson(mongo);
  for (const [collection] of DECLARATIONS)
    await mongo.db.collection(collection).updateMany({}, { $set: { nickname: 'Unnamed' } });
  const exported = await exportOf(person.id);
  const linked = new Set(linksBy('person', 'email', 'attempt', 'notification').filter(({ shows }) => shows !== ''));
  const shown = [...new Set([...linked].map(({ collection }) => collection))];
  t.strictSame(
    shown.filter((name) => !(name in exported || name === 'ai_preview_leases')),
    [],
  );
  t.notMatch(JSON.stringify(exported), /nickname|Unnamed/);
});

t.test('rows that other work still needs wait, and the next run erases them', async (t) => {
  const person = await storePerson(mongo);
  const later = new Date(Date.now() + 60_000);
  const notices = mongo.db.collection<Command>(NOTICES);
  await notices.updateMany({ subject: person.attemptId }, { $set: { lockedUntil: later } });
  await generations(mongo).updateOne({ 'actor.id': person.id }, { $set: { state: 'PENDING', settledAt: null } });
  const ungraded = await storeAttempt(mongo, { ...SUBMITTED, studentId: person.id, attemptNumber: 2 });
  const grading = await postGrading(mongo, ungraded);

  const first = await erasePerson(mongo, person.id, act());
  t.equal(first.kind, 'waiting');
  t.strictSame('rows' in first && Object.fromEntries(first.rows), {
    attempts: 1,
    attempt_notices: 2,
    ai_generations: 1,
  });
  t.ok(await isErased(mongo, person.id), 'the tombstone refuses new data from the first run on');
  t.match(await attempts(mongo).findOne({ _id: ungraded._id }), {
    studentId: person.id,
    answers: { q1: { text: /./ } },
  });
  t.match(await generations(mongo).findOne({ 'actor.id': person.id }), { state: 'PENDING' }, 'it can still be charged');

  await notices.updateMany({ subject: person.attemptId }, { $set: { lockedUntil: null } });
  await generations(mongo).updateOne({ 'actor.id': person.id }, { $set: { state: 'SETTLED', settledAt: new Date() } });
  await mongo.db.collection<Command>('commands').updateOne({ _id: grading._id }, { $set: { status: 'DEAD' } });
  const second = await erasePerson(mongo, person.id, act());
  t.equal(second.kind, 'erased');
  t.strictSame(await placesOf(person.id), [ERASED_PERSONS]);
  t.match(
    await attempts(mongo).findOne({ _id: ungraded._id }),
    { status: 'SUBMITTED' },
    'a dead grading does not block',
  );
  t.equal(await mongo.db.collection<Command>('commands').findOne({ _id: grading._id }), null, 'and is never replayed');
  const both = await attempts(mongo)
    .find({ _id: { $in: [person.attemptId, ungraded._id] } })
    .toArray();
  t.equal(new Set(both.map((one) => one.studentId)).size, 1, 'one pseudonym for all rows of a person');
});

t.test('a generation loses its key, which digests the person, and so does its settlement command', async (t) => {
  const person = await storePerson(mongo);
  const { _id = '', key } = (await generations(mongo).findOne({ 'actor.id': person.id })) ?? {};
  const settlement = () => mailboxOf(mongo, 'settlement').findOne({ subject: _id });
  t.match(await settlement(), { body: { previewId: _id, key } });
  const { tombstone } = await erasePerson(mongo, person.id, act());
  t.match(await generations(mongo).findOne({ _id }), { key: `erased:${_id}`, actor: { id: /^erased-/ } });
  t.strictSame((await settlement())?.body, { previewId: _id });
  t.match(tombstone.counts, { ai_generations: { pseudonymised: 1 } });
});

t.test('an event keeps its replay key after its person was erased', async (t) => {
  const person = await storePerson(mongo);
  const keyed = await notificationEvents(mongo).findOne({ entityId: person.id });
  const alone = await notificationEvents(mongo).findOne({ targetUserIds: [person.id] });
  await erasePerson(mongo, person.id, act());
  t.match(await notificationEvents(mongo).findOne({ _id: keyed?._id ?? '' }), {
    sourceEventId: keyed?.sourceEventId ?? '',
    replayable: true,
    entityId: null,
    payload: null,
  });
  t.match(await notificationEvents(mongo).findOne({ _id: alone?._id ?? '' }), { targetUserIds: [], payload: null });
});

t.test('no query of an export or an erasure scans a collection', async (t) => {
  const watched = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(watched);
  await createIndexes(watched);
  const people = [];
  for (let n = 0; n < 20; n++) people.push(await storePerson(watched));
  seen.clear();
  const [{ id } = { id: '' }] = people;
  await exportOf(id, watched);
  t.equal((await erasePerson(watched, id, act())).kind, 'erased');
  t.equal(await erasedPersons(watched).countDocuments({ _id: { $gt: '' } }), 1);
  await noneScans(t, watched, seen, 40);
});
