import t, { type Test } from 'tap';
import { webhookAdapter } from '#infra/channels/webhook.ts';
import { readConfig } from '#infra/config/config.ts';
import type { Neighbours } from '#infra/config/settings.ts';
import { chargeOwners, checkUsage, readBalance } from '#infra/neighbours/billing.ts';
import { sendAccountNotice, sendNotice, sendToAnalytics, sendToAudit } from '#infra/neighbours/events.ts';
import { openContacts, resolveParents } from '#infra/neighbours/profile.ts';
import { loadQuestions } from '#infra/neighbours/question-bank.ts';
import { withObservers } from '#infra/neighbours/unanswering.ts';
import { mathsPaper } from '#scripts/sandbox/school/paper.ts';
import { analyticsEvents } from '#shared/attempt/analytics.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { COUNTERS } from '#shared/classifier/generation.ts';
import { newId } from '#shared/kernel/ids.ts';
import { auditEvent, newEvent } from '#shared/notification/event.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { sampleJob } from '#testing/suites/adapter-suite.ts';
import { NEIGHBOUR_NAMES, type NeighbourName } from './environment.ts';
import type { Failure } from './failure.ts';
import { openStandIns } from './open-stand-ins.ts';

// The product's own clients call the stand-ins through the environment that these print.

type Called = Exclude<NeighbourName, 'models'>;
const CALLED = NEIGHBOUR_NAMES.filter((name) => name !== 'models');

const NOW = new Date('2026-05-04T03:40:01.000Z');
const SCOPE = { organizationId: 'org-1', actor: { id: 'teacher-1', role: 'TEACHER' } };
const CHARGE = { credits: 6, tokens: 300 };
const paper = samplePaper({ score: 1 }, { score: 2, questionVersionId: 'version-1' });
const attempt = sampleAttempt({
  status: 'GRADED',
  submittedAt: NOW,
  submittedBy: 'STUDENT',
  durationSeconds: 60,
  order: [1, 0],
  maxScore: 3,
  totalScore: 1,
  correctCount: 1,
  wrongCount: 1,
  pendingManualCount: 0,
  answers: { q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1 }) },
  courseContext: {
    courseId: 'course-1',
    courseQuizReferenceId: 'quiz-1',
    lessonId: 'lesson-1',
    studentId: 'student-1',
    organizationId: 'org-1',
    validatedBy: 'course-service',
    validatedAt: NOW,
  },
});
const stored = newEvent(
  { type: 'exam.assigned.notification.v1' },
  { id: newId(), now: NOW, created: 2, organizationId: null },
);

/** A time limit that no reply on this machine exceeds, and one that a delayed reply always does. */
const PATIENT_MS = 20_000;
const SHORT_MS = 100;

async function setUp(t: Test, env: NodeJS.ProcessEnv = {}) {
  const standIns = await openStandIns({ env, questions: mathsPaper(), balance: 100 });
  t.teardown(standIns.close);
  standIns.profile.learn({ parents: { 'student-1': ['parent-1', 'parent-2'], orphan: [] } });
  const tokens = { INTERNAL_SERVICE_TOKEN: 'dev-internal-token', ...env };
  const given = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/', ...tokens, ...standIns.env }, 'cluster');
  const outcomes: string[] = [];
  const config = withObservers(given, () => (outcome) => void outcomes.push(outcome));
  const of = (name: keyof Neighbours) => {
    const neighbour = config.neighbours[name];
    if (neighbour === null) throw new Error(`${name} is not configured`);
    return neighbour;
  };
  const { webhook } = config.notification;
  if (webhook === null) throw new Error('the webhook is not configured');
  let timeoutMs = PATIENT_MS;
  const limits = () => ({ timeoutMs });
  const row = () => ({ _id: newId(), ...SCOPE, charge: CHARGE, usageConsumed: false });
  const [studentNotice] = gradeNotices(attempt);
  if (studentNotice === undefined) throw new Error('the attempt has no notice');
  const wanted = {
    fields: ['topic'],
    mode: 'SUGGEST',
    overwrite: false,
    organizationId: 'org-1',
    actorId: 'teacher-1',
  };

  /** One call of each client. Each has the effect that `effects` counts. */
  const calls: Record<Called, () => Promise<unknown>> = {
    profile: () => resolveParents(of('profile'), { studentId: 'student-1', organizationId: 'org-1' }, limits()),
    analytics: async () => {
      for (const event of analyticsEvents(attempt, paper, NOW)) await sendToAnalytics(of('analytics'), event, limits());
    },
    audit: () => sendToAudit(of('audit'), auditEvent(stored), limits()),
    'question-bank': () =>
      loadQuestions(
        of('questionBank'),
        { ...wanted, questionIds: ['toan-2025-c01', 'unknown'], actorRole: 'TEACHER' },
        limits(),
      ),
    usage: () => chargeOwners({ usage: of('usage'), wallet: of('wallet') }, row(), async () => undefined, limits()),
    wallet: () =>
      chargeOwners(
        { usage: of('usage'), wallet: of('wallet') },
        { ...row(), usageConsumed: true },
        async () => undefined,
        limits(),
      ),
    notification: () => sendNotice(of('notification'), studentNotice, ['student-1'], limits()),
    webhook: () =>
      webhookAdapter({ ...webhook, timeoutMs, now: Date.now }).send(sampleJob('webhook'), {
        signal: new AbortController().signal,
      }),
  };
  const ledger = standIns.ledgerOf('org-1');
  const size = (state: object) => Object.keys((state as { byId: object }).byId).length;
  /** Number of effects that each stand-in has stored; a read has none. */
  const effects: Record<Called, () => number> = {
    profile: () => 0,
    'question-bank': () => 0,
    analytics: () => size(standIns.analytics.state()),
    audit: () => size(standIns.audit.state()),
    usage: () => ledger.consumed.size,
    wallet: () => ledger.debits.size,
    notification: () => size(standIns.notification.state()),
    webhook: () => size(standIns.webhook.state()),
  };
  return {
    standIns,
    of,
    limits,
    outcomes,
    calls,
    effects,
    within: (ms: number) => {
      timeoutMs = ms;
    },
  };
}

t.test('each stand-in accepts what the client of its service sends, and the client accepts its reply', async (t) => {
  const { standIns, of, limits, outcomes, calls } = await setUp(t);
  for (const name of CALLED) {
    outcomes.length = 0;
    await calls[name]();
    t.ok(outcomes.length > 0 && outcomes.every((outcome) => outcome === 'ok'), `${name}: ${outcomes.join()}`);
  }
  t.strictSame(await calls.profile(), { kind: 'parents', ids: ['parent-1', 'parent-2'], leftOut: 0 });
  for (const studentId of ['orphan', 'unknown']) {
    const found = await resolveParents(of('profile'), { studentId, organizationId: null }, limits());
    t.strictSame(found, { kind: 'parents', ids: [], leftOut: 0 }, studentId);
  }
  standIns.profile.learn({ contacts: { 'student-1': { email: 'an@school.example', language: 'vi' } } });
  const contactOf = openContacts(of('profile'), Date.now);
  t.match(await contactOf('student-1', limits()), { kind: 'found', contact: { email: 'an@school.example' } });
  t.strictSame(await contactOf('unknown', limits()), { kind: 'found', contact: null });
  standIns.profile.learn({ unknownStudent: 403 });
  const strange = await resolveParents(of('profile'), { studentId: 'unknown', organizationId: null }, limits());
  t.match(strange, { kind: 'refused', reply: { status: 403 } }, 'a notice of another school waits');
  const known = (await calls['question-bank']()) as ReadonlyMap<string, object>;
  t.strictSame([...known.keys()], ['toan-2025-c01']);
  t.notMatch(JSON.stringify([...known]), /answerKey|correctOptionIds/);
  const notice = { eventId: newId(), accountId: 'account-1', event: 'PASSWORD_SET', at: NOW } as const;
  t.match(await sendAccountNotice(of('notification'), notice, limits()), { kind: 'served', reply: { status: 201 } });
  t.match(await sendAccountNotice(of('notification'), notice, limits()), { kind: 'served', reply: { status: 200 } });
  t.equal(standIns.notification.timesOf(notice.eventId), 2);
  t.equal(standIns.analytics.timesOf(`${attempt._id}:graded:v2`), 1);
});

t.test('usage service and wallet apply each key once and refuse what exceeds limit or balance', async (t) => {
  const { standIns, of, limits } = await setUp(t);
  const payees = { usage: of('usage'), wallet: of('wallet') };
  const row = { _id: newId(), ...SCOPE, charge: CHARGE, usageConsumed: false };
  for (let n = 0; n < 3; n++) await chargeOwners(payees, row, async () => undefined, limits());
  t.equal(await readBalance(of('wallet'), SCOPE, limits()), 94);
  t.equal(await readBalance(of('wallet'), { ...SCOPE, organizationId: 'org-2' }, limits()), 100);
  t.strictSame(await checkUsage(of('usage'), SCOPE, CHARGE, limits()), []);
  standIns.usage.learn({ limits: { 'org-1': { credits_hourly: 11 } } });
  t.strictSame(await checkUsage(of('usage'), SCOPE, CHARGE, limits()), ['credits_hourly']);
  t.ok(COUNTERS.includes('credits_hourly'));
  standIns.wallet.learn({ balances: { 'org-1': 5 } });
  const poor = { ...row, _id: newId(), usageConsumed: true };
  await t.rejects(
    chargeOwners(payees, poor, async () => undefined, limits()),
    /wallet service answered 402/,
  );
});

/** A failure, the outcome that the client must report, and whether the call takes effect. */
const FAILURES: readonly { failure: Failure; outcome: string; performs: boolean }[] = [
  { failure: { answer: 503 }, outcome: 'failed', performs: false },
  { failure: { refuse: 422 }, outcome: 'refused', performs: false },
  { failure: { drop: true }, outcome: 'unanswered', performs: false },
  { failure: { lose: true }, outcome: 'unanswered', performs: true },
  { failure: { lose: true, answer: 503 }, outcome: 'failed', performs: true },
  { failure: { delayMs: 600_000 }, outcome: 'unanswered', performs: false },
];

for (const { failure, outcome, performs } of FAILURES) {
  t.test(`with ${JSON.stringify(failure)} the client of each service reports ${outcome}`, async (t) => {
    const { standIns, outcomes, calls, effects, within } = await setUp(t);
    within(failure.delayMs === undefined ? PATIENT_MS : SHORT_MS);
    for (const name of CALLED) {
      standIns.fail(name, failure);
      outcomes.length = 0;
      const before = effects[name]();
      await calls[name]().catch(() => undefined);
      t.strictSame([...new Set(outcomes)], [outcome], name);
      const isRead = name === 'profile' || name === 'question-bank';
      t.equal(effects[name]() > before, performs && !isRead, `${name} has its effect`);
      standIns.fail(name, null);
      within(PATIENT_MS);
      outcomes.length = 0;
      await calls[name]();
      t.ok(
        outcomes.every((ended) => ended === 'ok'),
        `${name} answers again`,
      );
      within(failure.delayMs === undefined ? PATIENT_MS : SHORT_MS);
    }
  });
}

t.test('a stand-in refuses another token, and accepts that of each sender', async (t) => {
  const env = {
    INTERNAL_SERVICE_TOKEN: 'internal-token-of-this-test',
    NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'token-of-the-attempt-service',
  };
  const { outcomes, calls } = await setUp(t, env);
  for (const name of CALLED) await calls[name]();
  t.ok(outcomes.every((outcome) => outcome === 'ok'));
  const strange = await openStandIns({ env: { INTERNAL_SERVICE_TOKEN: 'another' } });
  t.teardown(strange.close);
  const { neighbours } = readConfig(
    {
      MONGODB_URL: 'mongodb://127.0.0.1/',
      INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
      ...strange.env,
    },
    'cluster',
  );
  if (neighbours.profile === null) throw new Error('the profile service is configured');
  const student = { studentId: 'student-1', organizationId: null };
  const read = await resolveParents(neighbours.profile, student, { timeoutMs: PATIENT_MS });
  t.match(read, { kind: 'refused', reply: { status: 401 } });
});
