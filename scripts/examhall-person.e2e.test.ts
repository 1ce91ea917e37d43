import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { BSON } from 'mongodb';
import t from 'tap';
import { pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { AnyDeclaration, FieldRule } from '#infra/mongo/schema/personal-fields/rules.ts';
import { type CollectionName, linksBy, PERSONAL_FIELDS } from '#infra/mongo/schema/personal-fields.ts';
import { attemptClient, essay } from '#testing/clients/attempt-client.ts';
import { authClient } from '#testing/clients/auth-client.ts';
import { driveMarkedPerson, MARK } from '#testing/clients/marked-person.ts';
import { notificationClient } from '#testing/clients/notification-client.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { startCluster, WORKERS } from '#testing/processes/cluster.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { untilSlowly } from '#testing/until.ts';

const owners = await openFakeOwners(t);
const cluster = await startCluster(t, {
  workers: WORKERS,
  inside: true,
  ownNotifications: true,
  env: {
    ...owners.env,
    NOTIFICATION_CHANNELS: 'log',
    TRUSTED_PROXIES: '127.0.0.1',
    AI_CLASSIFIER_WORKER_ENABLED: '1',
    AI_GENERATION_USAGE_WALLET_ENABLED: '1',
    AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
  },
});
const place = { url: requiredEnv('MONGODB_URL'), database: cluster.mongo.databaseName };
const WHY = ['--reason', 'request by letter'];
/** Runs a command of a person as a process. */
const started = (verb: string, ...args: string[]) => runExamhall(place, ['person', verb, ...args, ...WHY]);
const person = (verb: string, ...args: string[]) => callExamhall(place, ['person', verb, ...args, ...WHY]);

const marked = await driveMarkedPerson(cluster);
const { id, email } = marked;
const WORDS = [...marked.words, throttleKey(email), pairOf(email, '127.0.0.1').key];

/** Returns `collection.field` of each stored field whose bytes contain a text by which the person is known. */
async function markedFields(words: readonly string[] = WORDS): Promise<Set<string>> {
  const found = new Set<string>();
  for (const { name } of await cluster.mongo.listCollections().toArray()) {
    for await (const row of cluster.mongo.collection(name).find({})) {
      for (const [field, value] of Object.entries(row)) {
        const text = Buffer.from(BSON.serialize({ value })).toString('utf8').toLowerCase();
        if (words.some((word) => text.includes(word.toLowerCase()))) found.add(`${name}.${field}`);
      }
    }
  }
  return found;
}

function ruleOf(place: string): FieldRule | undefined {
  const [collection = '', field = ''] = place.split('.');
  const declaration: AnyDeclaration = PERSONAL_FIELDS[collection as CollectionName];
  return declaration?.fields[field];
}

/** The recipients of an event are other people too: the export has the event and omits these lists. */
const OTHERS: ReadonlySet<string> = new Set(['notification_events.targetUserIds', 'notification_events.suppressed']);
/** Its rows hold the id of a notification and nothing else, so no mark of a person can be in them. */
const UNMARKED = 'notification_snapshot_ids';
const isKept = (rule: FieldRule | undefined) => typeof rule === 'object' && 'kept' in rule;

t.test('every field in which the product stores something about a person is declared', async (t) => {
  const places = await markedFields();
  const undeclared = [...places].filter((place) => [undefined, 'no person'].includes(ruleOf(place) as undefined));
  t.strictSame(undeclared, []);
  t.ok(places.size >= 39, `${places.size} fields name the person`);
  const reached = new Set([...places].map((place) => place.split('.')[0]));
  const linked = linksBy('person', 'email', 'attempt', 'notification').map(({ collection }) => collection);
  t.strictSame(
    [...new Set(linked)].filter((name) => !reached.has(name)),
    [UNMARKED],
  );
});

t.test('show counts rows and shows no content', async (t) => {
  const shown = await started('show', id);
  t.equal(shown.code, 0, shown.err);
  t.match(shown.out, /1 {2}accounts\n/);
  for (const word of WORDS) t.notMatch(shown.said, word);
  t.match(await person('show', 'nobody-at-all'), { code: 1, out: /no rows about this person/ });
});

t.test('an export contains every field that the register declares, and no secret', async (t) => {
  const file = path.join(t.testdir(), 'person.json');
  const exported = await person('export', id, '--out', file);
  t.equal(exported.code, 0, exported.said);
  t.equal(statSync(file).mode & 0o777, 0o600, 'only the operator may read it');
  const { collections } = JSON.parse(readFileSync(file, 'utf8'));
  for (const place of await markedFields()) {
    const [collection = '', field = ''] = place.split('.');
    const rule = ruleOf(place);
    if (isKept(rule) || (typeof rule === 'object' && 'secret' in rule) || OTHERS.has(place)) continue;
    const rows: Record<string, unknown>[] = collections[collection] ?? [];
    t.ok(
      rows.some((row) => row[field] !== undefined),
      place,
    );
  }
  t.match(JSON.stringify(collections), MARK);
  t.notMatch(JSON.stringify(collections), /\$2[aby]\$/, 'no hash');
  t.match(await person('export', id, '--out', file), { code: 1, err: /EEXIST/ }, 'a file is never overwritten');
});

t.test('an erasure leaves nothing but what the register keeps, and prints a receipt', async (t) => {
  const open = await (await attemptClient(cluster)).student(id).start('another-exam', { questions: [essay()] });
  const openId: string = open.data.attempt.id;
  t.match(await person('erase', id, '--yes'), {
    code: 1,
    err: /^error: 1 attempt in progress; pass --end-open-attempts/,
  });
  const dry = await person('erase', id, '--end-open-attempts');
  t.match(dry, { code: 0, out: /^dry run: \d+ rows would be erased/ });
  t.ok((await markedFields()).size >= 39, 'a dry run erases nothing');

  let done = await person('erase', id, '--end-open-attempts', '--yes');
  // The grading worker needs a moment for the attempt that was open.
  await untilSlowly('the person is erased', async () => {
    if (done.code === 0) return true;
    t.match(done.err, /must wait: /);
    done = await person('erase', id, '--yes');
    return done.code === 0;
  });
  t.match(done.out, /^erased\ntombstone {3}\S+\nat .*\noperator {4}an\nreason {6}request by letter\n/m);
  t.match(done.out, /pseudonymised +2 {2}attempts\n/);
  t.match(done.out, /kept +notification_events\.sourceEventId: the replay key/);
  t.match(await cluster.mongo.collection('attempts').findOne({ _id: openId as never }), { status: 'GRADED' });
  t.strictSame(
    [...(await markedFields())].filter((place) => !isKept(ruleOf(place))),
    [],
  );

  const again = await person('erase', id, '--yes');
  t.match(again, { code: 0, out: /^already erased; nothing has arrived since\n/ });
  t.equal(again.out.split('\n').slice(1).join('\n'), done.out.slice(done.out.indexOf('tombstone')), 'the same receipt');
  t.match(await person('show', id), { code: 0, out: /^erased at .*\nno rows about this person\n/ });
  const [, tombstone] = /^tombstone +(\S+)$/m.exec(done.out) ?? [];
  const audit = await cluster.mongo.collection('operator_audit').find({ subject: tombstone }).toArray();
  t.strictSame([...new Set(audit.map(({ action }) => action))].sort(), [
    'account.person-erase',
    'account.person-export',
    'account.person-show',
  ]);
});

t.test('requests and events that come again neither store the person nor fail', async (t) => {
  const [attempts, inbox] = [await attemptClient(cluster), await notificationClient(cluster)];
  const rows = () => cluster.mongo.collection('notifications').countDocuments({});
  const before = await rows();
  const student = attempts.student(id);
  const replay = await student.start(marked.examId, { questions: [essay()] }, { key: marked.startKey });
  t.match(replay, { status: 410, json: { code: 'PERSON_ERASED' } });
  t.match(await student.start('a-third-exam'), { status: 410 });
  t.match(await student.get(marked.attemptId), { status: 403 });
  t.match(await student.save(marked.attemptId, { questionId: 'essay', answer: { textAnswer: MARK } }), { status: 403 });
  t.match(await attempts.sendHandoff(marked.attemptId, { feedback: 'late' }), { status: 404 });

  const service = inbox.service('bff-service');
  t.match(await service.weakTopic(marked.event), { status: 200, data: { replayed: true, created: 0 } });
  const late = await service.weakTopic({ studentId: id, studentName: MARK, parentIds: ['parent-1'] });
  t.match(late, { status: 201, data: { created: 0, suppressed: [{ userId: 'parent-1', reason: 'ERASED' }] } });
  const admin = inbox.as('ADMIN', 'admin-1');
  t.match(await admin.create(id), { status: 200, data: { created: 0, suppressed: [{ reason: 'ERASED' }] } });
  const producer = inbox.service('exam-service');
  t.match(await producer.event({ targetUserIds: [id], actorId: id, entity: 'Student', entityId: id }), { status: 201 });
  t.match(await admin.snapshot('snapshot-1', { userId: id }), { status: 410 });
  t.match(await admin.recordAttempt({ userId: id }), { status: 410 });
  t.match(await inbox.as('TEACHER', id).alertWeakTopic({ parentIds: ['parent-1'] }), { status: 410 });
  t.match(await (await authClient(cluster)).login(email), { status: 401 });

  t.equal(await rows(), before, 'nobody is notified');
  const kept = [...(await markedFields())].filter((place) => !isKept(ruleOf(place)));
  // The failed login counts under a digest of what was typed; MongoDB deletes it after a day.
  t.strictSame(kept, ['auth_throttles._id']);
});
