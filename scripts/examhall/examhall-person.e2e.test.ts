import { randomUUID } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { BSON } from 'mongodb';
import t from 'tap';
import { pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { Column, Declaration } from '#infra/mongo/schema/personal-fields/rules.ts';
import { type CollectionName, linksBy, PERSONAL_FIELDS } from '#infra/mongo/schema/personal-fields.ts';
import { attemptClient, essay } from '#testing/clients/attempt-client.ts';
import { authClient, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import type { HttpReply } from '#testing/clients/call.ts';
import { notificationClient } from '#testing/clients/notification-client.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { type Cluster, startCluster, WORKERS } from '#testing/processes/cluster.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { testBrowser } from '#testing/stored/stored-notifications.ts';
import { undeclaredFields } from '#testing/stored/stored-person.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until, untilSlowly } from '#testing/until.ts';

/** Words that a marked person leaves in each kind of text. */
const MARK = 'DauVetCuaToi';
const PHONE = '+84912345678';
const PARENT = 'parent-of-the-marked';
const NEW_PASSWORD = 'Núi Ngự Sông Hương 1802';

/** A person who used every public route that stores something about its user. */
interface MarkedPerson {
  id: string;
  email: string;
  attemptId: string;
  examId: string;
  startKey: string;
  /** Texts by which a row names the person. */
  words: string[];
  /** Body of a stored event about the person, to send again. */
  event: Record<string, unknown>;
}

/** Drives the product through its public routes for one new person, as student, inbox owner and teacher. Returns what identifies it. */
async function driveMarkedPerson(cluster: Cluster): Promise<MarkedPerson> {
  const { id, email } = await driveLogins(cluster);
  const sitting = await driveSitting(cluster, id);
  const event = await driveInbox(cluster, id);
  await driveModels(cluster, id);
  return { id, email, event, ...sitting, words: [id, email, PHONE, MARK] };
}

/** @throws Error if the request was refused: the person would lack a trace */
function accepted(reply: HttpReply): HttpReply {
  if (reply.status >= 300) throw new Error(`a request of the marked person answered ${reply.status}: ${reply.text}`);
  return reply;
}

async function driveLogins(cluster: Cluster): Promise<{ id: string; email: string }> {
  const auth = await authClient(cluster);
  const email = `${MARK}.${newEmail()}`.toLowerCase();
  const agent = { 'user-agent': `Browser of ${MARK}` };
  const registered = await auth.register({ email, fullName: `Trần ${MARK}`, phone: PHONE }, agent);
  const { accessToken, refreshToken, user } = registered.data;
  accepted(await auth.refresh(refreshToken));
  await auth.login(email, 'a wrong password', agent);
  await auth.as(accessToken).changePassword(PASSWORD, NEW_PASSWORD);
  await auth.login(email, NEW_PASSWORD, agent);
  await auth.login(email, 'a wrong password', agent);
  // Another address is a stranger, whose failures are counted by e-mail.
  await auth.login(email, 'a wrong password', { 'x-forwarded-for': '203.0.113.9' });
  return { id: user.id, email };
}

async function driveSitting(cluster: Cluster, id: string) {
  const client = await attemptClient(cluster);
  const student = client.student(id);
  cluster.neighbours.parents = [PARENT];
  const [examId, startKey] = [`exam-${randomUUID()}`, `start-${MARK}-${id}`];
  const link = { id: `link-${examId}`, mode: 'GUEST_ALLOWED', active: true, studentLimit: 3 };
  const started = await student.start(
    examId,
    {
      exam: { showResultMode: 'MANUAL' },
      access: { assigned: false, link },
      questions: [essay()],
      studentInfo: { fullName: `Trần ${MARK}`, phone: PHONE },
    },
    { key: startKey },
  );
  const attemptId: string = started.data.attempt.id;
  const proctor = { 'x-user-id': 'admin-1', 'x-user-role': 'ADMIN', 'idempotency-key': randomUUID() };
  const grant = { minutes: 5, studentIds: [id], reason: 'the fire alarm' };
  accepted(await cluster.request('POST', `/v1/exams/${examId}/extra-time`, { headers: proctor, body: grant }));
  const answer = { textAnswer: `${MARK} viết. `.repeat(500) };
  accepted(await student.save(attemptId, { questionId: 'essay', answer }));
  for (const long of ['', 'x'.repeat(3_000)]) await student.post(attemptId, 'TAB_HIDDEN', { by: MARK, long });
  accepted(await student.submit(attemptId));
  const remarks = { feedback: `Bài của ${MARK}`, criteria: [{ name: 'Ý', comment: MARK }] };
  accepted(await client.sendHandoff(attemptId, remarks));
  const released = { examId, sourceEventId: randomUUID(), releasedAt: new Date().toISOString() };
  await client.release({ ...released, payload: { schemaVersion: 1, studentIds: [id] } });
  const regrade = { changes: [{ questionId: 'essay', award: 'FULL' }], reason: 'the fire alarm' };
  accepted(await cluster.request('POST', `/v1/exams/${examId}/regrades`, { headers: proctor, body: regrade }));
  for (const userId of [id, PARENT]) {
    await until(`${userId} is notified`, () =>
      cluster.mongo.collection('notifications').findOne({ userId, entityId: attemptId }),
    );
  }
  return { attemptId, examId, startKey };
}

async function driveInbox(cluster: Cluster, id: string): Promise<Record<string, unknown>> {
  const client = await notificationClient(cluster);
  const [own, admin] = [client.as('TEACHER', id), client.as('ADMIN', 'admin-1')];
  const service = client.service('bff-service');
  const weakTopic = { sourceEventId: randomUUID(), studentId: id, studentName: MARK, parentIds: [PARENT] };
  accepted(await service.weakTopic(weakTopic));
  accepted(await own.alertWeakTopic({ studentId: 'student-of-another', parentIds: [PARENT] }));
  accepted(await own.prefer({ enabledTypes: { [`TYPE_${MARK}`]: false }, channels: { email: false } }));
  const browser = { headers: own.headers, body: testBrowser().request };
  accepted(await client.call('POST', '/v1/push-subscriptions', browser));
  const made = accepted(await admin.create(id, { content: `Chào ${MARK}`, data: { name: MARK }, actorId: id }));
  accepted(await admin.create('user-of-another', { actorId: id }));
  // The person has disabled the type: no row is created, and the event names the person all the same.
  const muted = { userId: id, type: `TYPE_${MARK}`, title: 'x', content: 'x' };
  accepted(await client.service('exam-service').event({ targetUserIds: [id, PARENT], notifications: [muted] }));
  accepted(await admin.create(id, { type: muted.type }));
  accepted(await own.read(made.data.notification.id));
  const error = `no route to ${MARK}`;
  const sent = { providerId: `message-${MARK}`, metadata: { to: MARK } };
  accepted(await admin.recordAttempt({ userId: id, notificationId: made.data.notification.id, error, ...sent }));
  // A count of one status would be answered from the index of dead letters by the stand-ins, and find nothing.
  const deliveries = cluster.mongo.collection<{ status: string }>('notification_deliveries');
  const all = () => deliveries.find({}, { projection: { status: 1 } }).toArray();
  await until('every delivery has ended', async () => (await all()).every(({ status }) => status !== 'PENDING'));
  return weakTopic;
}

async function driveModels(cluster: Cluster, id: string): Promise<void> {
  const headers = { 'x-actor-id': id, 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
  const post = async (path: string, body: unknown) => accepted(await cluster.request('POST', path, { headers, body }));
  await post('/v1/ai/essay-grade/preview', {
    questionId: 'essay',
    prompt: 'Tả con sông',
    answerText: `Của ${MARK}`,
    maxScore: 5,
    rubric: { criteria: [{ id: 'ideas', name: 'Ý', maxScore: 5 }] },
  });
  const wanted = { subject: 'Toán', gradeLevel: 12, topic: 'Đạo hàm', questionType: 'NUMERIC', difficulty: 'dễ' };
  await post('/v1/ai/generation/preview', { mode: 'fresh', ...wanted, count: 1 });
  await post('/v1/ai-classifier/jobs', { questionIds: ['q-1'], fields: ['topic'], mode: 'SUGGEST' });
  const { mongo } = cluster;
  await until('the job has ended', () => mongo.collection('ai_jobs').findOne({ actorId: id, open: false }));
  await until('the generation is paid for', () =>
    mongo.collection('ai_generations').findOne({ 'actor.id': id, state: 'SETTLED' }),
  );
}

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

/** Returns how the register treats the field: its column, `kept` if there is a reason, or undefined if it is not declared. */
function ruleOf(place: string): Column | 'kept' | undefined {
  const [collection = '', field = ''] = place.split('.');
  const declaration: Declaration = PERSONAL_FIELDS[collection as CollectionName];
  return declaration?.kept[field] === undefined ? declaration?.fields[field] : 'kept';
}

/** Lists of other people too, which an export omits: the recipients of an event, and the students of a release or an act. */
const OTHERS: ReadonlySet<string> = new Set([
  'notification_events.targetUserIds',
  'notification_events.suppressed',
  'attempt_exam_acts.studentIds',
  'attempt_releases.studentIds',
]);
/** Its rows hold the id of a notification and nothing else, so no mark of a person can be in them. */
const UNMARKED = 'notification_snapshot_ids';

t.test('every field in which the product stores something about a person is declared', async (t) => {
  const places = await markedFields();
  const impersonal: unknown[] = ['stays', 'technical', undefined];
  t.strictSame(
    [...places].filter((place) => impersonal.includes(ruleOf(place))),
    [],
  );
  t.ok(places.size >= 39, `${places.size} fields name the person`);
  const reached = new Set([...places].map((place) => place.split('.')[0]));
  const linked = linksBy('person', 'email', 'attempt', 'notification').map(({ collection }) => collection);
  t.strictSame(
    [...new Set(linked)].filter((name) => !reached.has(name)),
    [UNMARKED],
  );
});

t.test('every field that the product has stored is declared', async (t) => {
  t.strictSame(await undeclaredFields(cluster.mongo), []);
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
    if (['kept', 'secret'].includes(ruleOf(place) ?? '') || OTHERS.has(place)) continue;
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
    [...(await markedFields())].filter((place) => ruleOf(place) !== 'kept'),
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
  const kept = [...(await markedFields())].filter((place) => ruleOf(place) !== 'kept');
  // The failed login counts under a digest of what was typed; MongoDB deletes it after a day.
  t.strictSame(kept, ['auth_throttles._id']);
});
