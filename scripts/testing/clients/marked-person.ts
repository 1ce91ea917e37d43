import { randomUUID } from 'node:crypto';
import type { Cluster } from '#testing/processes/cluster.ts';
import { testBrowser } from '#testing/stored/test-browser.ts';
import { until } from '#testing/until.ts';
import { attemptClient, essay } from './attempt-client.ts';
import { authClient, newEmail, PASSWORD } from './auth-client.ts';
import type { HttpReply } from './http-call.ts';
import { notificationClient } from './notification-client.ts';

/** Words that a marked person leaves in each kind of text. */
export const MARK = 'DauVetCuaToi';
const PHONE = '+84912345678';
const PARENT = 'parent-of-the-marked';
const NEW_PASSWORD = 'Núi Ngự Sông Hương 1802';

/** A person who used every public route that stores something about its user. */
export interface MarkedPerson {
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
export async function driveMarkedPerson(cluster: Cluster): Promise<MarkedPerson> {
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
  const answer = { textAnswer: `${MARK} viết. `.repeat(500) };
  accepted(await student.save(attemptId, { questionId: 'essay', answer }));
  for (const long of ['', 'x'.repeat(3_000)]) await student.post(attemptId, 'TAB_HIDDEN', { by: MARK, long });
  accepted(await student.submit(attemptId));
  const remarks = { feedback: `Bài của ${MARK}`, criteria: [{ name: 'Ý', comment: MARK }] };
  accepted(await client.sendHandoff(attemptId, remarks));
  await client.release({ examId, sourceEventId: randomUUID(), releasedAt: new Date().toISOString() });
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
  accepted(await own.prefer({ enabledTypes: { [`TYPE_${MARK}`]: false } }));
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
  accepted(await admin.recordAttempt({ userId: id, notificationId: made.data.notification.id, error }));
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
