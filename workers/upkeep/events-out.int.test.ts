import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { notificationEvents } from '#infra/mongo/notification/collections.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { analyticsEvents } from '#shared/attempt/analytics.ts';
import { asGraded, gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { auditEvent } from '#shared/notification/event.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postGrading, postHandoff, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { analyticsIds, postAnalytics, postAudit } from '#testing/stored/stored-events.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

const mongo = await openTestMongo(t);
const neighbours = await openNeighbours(t);
const env = { ...neighbours.env, ...neighbours.auditEnv };
const deps = testWorkerDeps(mongo, env);

const run = (actor: string, command: Command, own = deps) =>
  runCommand(testKernel(mongo), makeActor(actor, own), command);
const stored = (queue: Queue, filter: Partial<Command>) =>
  mailboxOf<Queue>(mongo, queue).findOne<Command>({ queue, ...filter } as object);
const sent = (id: string) => neighbours.calls.filter(({ body }) => body?.sourceEventId === id).map(({ body }) => body);

async function reportOf(subject: string): Promise<Command> {
  const report = await stored('upkeep:analytics', { subject });
  if (report === null) throw new Error('the grade has queued no report');
  return report;
}

/** Makes a command that backs off due at once. */
async function again({ _id }: Command): Promise<void> {
  await mongo.db.collection<Command>('commands').updateOne({ _id }, { $set: { nextRunAt: new Date(0) } });
}

t.test('a report shows the attempt as its first grading left it, whatever was written since', async (t) => {
  const attempt = await storeAttempt(mongo, {
    ...SUBMITTED,
    examId: 'exam-of-report',
    exam: { ...(await storeAttempt(mongo)).exam, showResultMode: 'MANUAL' },
    courseContext: null,
  });
  t.equal(await run('grading', await postGrading(mongo, attempt)), 'done');
  const report = await reportOf(attempt._id);
  t.match(report, { status: 'PENDING', maxAttempts: 30, body: { resultsReleasedAt: null } });
  t.equal(await run('essayhandoff', await postHandoff(mongo, attempt)), 'done');
  t.equal(await run('resultsrelease', await postRelease(mongo, { examId: attempt.examId })), 'done');
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { totalScore: 2.5, exam: { resultsReleasedAt: Date } });

  t.equal(await run('upkeep', report), 'done');
  const paper = await openPapers(mongo, 1).find(attempt.paperId);
  const graded = asGraded(attempt, atOnce(gradeAttempt(paper, attempt.answers)));
  const { gradedAt } = report.body as { gradedAt: Date };
  const wanted = analyticsEvents(graded, paper, gradedAt);
  t.match(wanted, [{ payload: { result: { totalScore: 1 }, exam: { resultsReleasedAt: null } } }, {}]);
  for (const event of wanted) t.same(sent(event.sourceEventId), [event], event.type);
  t.match(await stored('upkeep:analytics', { subject: attempt._id }), { status: 'DONE', result: { events: 2 } });
});

t.test('a report that fails is counted and sent again under the same ids', async (t) => {
  const report = await postAnalytics(mongo);
  const [submitted = '', graded = ''] = analyticsIds(report);
  const before = deps.alarms.length;
  neighbours.answer = ({ body }) => (body?.sourceEventId === graded ? { status: 503 } : undefined);
  t.equal(await run('upkeep', report), 'retried');
  neighbours.answer = null;
  t.strictSame(deps.alarms.slice(before), ['analytics_failed']);
  const error = { message: 'the analytics service answered 503' };
  t.match(await stored('upkeep:analytics', { subject: report.subject }), { attempts: 1, lastError: error });
  await again(report);
  t.equal(await run('upkeep', report), 'done');
  t.same(sent(submitted)[0], sent(submitted)[1]);
  t.equal(sent(graded).length, 2);
});

t.test('no reply spends an attempt, and the wait grows beyond that of other commands', async (t) => {
  const report = await postAnalytics(mongo, { maxAttempts: 30 });
  await mongo.db.collection<Command>('commands').updateOne({ _id: report._id }, { $set: { attempts: 20 } });
  const own = testWorkerDeps(mongo, {
    ...env,
    ANALYTICS_SERVICE_URL: 'http://127.0.0.1:1',
    WORKER_RETRY_BASE_DELAY_MS: '1000',
  });
  t.equal(await run('upkeep', report, own), 'retried');
  const after = await stored('upkeep:analytics', { subject: report.subject });
  t.match(after, {
    status: 'PENDING',
    attempts: 21,
    lastError: { message: /^the analytics service sent no complete reply/ },
  });
  t.ok((after?.nextRunAt.getTime() ?? 0) > Date.now() + 50 * 60_000, 'an hour');
});

t.test('an event that the receiver refuses is dead at once, unless another one may still arrive', async (t) => {
  const [report, audit] = [await postAnalytics(mongo), await postAudit(mongo)];
  neighbours.answer = () => ({ status: 422 });
  t.equal(await run('upkeep', report), 'dead');
  t.equal(await run('upkeep', audit), 'dead');
  const mixed = await postAnalytics(mongo);
  neighbours.answer = ({ body }) => ({ status: body?.type === 'attempt.graded.v1' ? 500 : 422 });
  t.equal(await run('upkeep', mixed), 'retried');
  neighbours.answer = null;
  t.equal(deps.alarms.at(-1), 'analytics_failed');
  t.ok(deps.alarms.includes('audit_failed'));
});

t.test('nothing is sent about a student who was erased before', async (t) => {
  const report = await postAnalytics(mongo);
  const { studentId } = report.body as { studentId: string };
  const act = { operator: 'an', reason: 'a test', now: Date.now() };
  t.equal((await erasePerson(mongo, studentId, act)).kind, 'erased');
  const left = await stored('upkeep:analytics', { subject: report.subject });
  t.notMatch(JSON.stringify(left), studentId);
  t.equal(await run('upkeep', report), 'done');
  t.match(await stored('upkeep:analytics', { subject: report.subject }), { status: 'DONE', result: { events: 0 } });
  for (const id of analyticsIds(report)) t.strictSame(sent(id), []);
});

t.test('the audit service receives the stored event, and nothing after its retention', async (t) => {
  const audit = await postAudit(mongo);
  const event = await notificationEvents(mongo).findOne({ _id: audit.subject });
  t.equal(await run('upkeep', audit), 'done');
  t.same(sent(audit.subject), [event === null ? null : auditEvent(event)]);
  const late = await postAudit(mongo);
  await notificationEvents(mongo).deleteOne({ _id: late.subject });
  t.equal(await run('upkeep', late), 'done');
  t.match(await stored('upkeep:audit', { subject: late.subject }), { result: { sent: false } });
  t.strictSame(sent(late.subject), []);
});

t.test('without the services nothing is written and nothing is claimed', async (t) => {
  const own = testWorkerDeps(mongo);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  t.equal(await run('grading', await postGrading(mongo, attempt), own), 'done');
  t.equal(await stored('upkeep:analytics', { subject: attempt._id }), null);
  const queues = Object.keys(makeActor('upkeep', own).handlers);
  t.strictSame(queues, ['upkeep', 'upkeep:fanouts', 'upkeep:deadletters', 'upkeep:publish', 'upkeep:webhooks']);
});
