import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { answerJson, listenLocally } from '#scripts/sandbox/local-server.ts';
import { openStandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { mathsPaper, TEACHER } from '#scripts/sandbox/school/paper.ts';
import { contactsOf, schoolOf, schoolYear } from '#scripts/sandbox/school/school.ts';
import { runSeed } from '#scripts/sandbox/seed.ts';
import { openProgress } from '#scripts/start/progress.ts';
import { startCluster, TOKENS } from '#testing/processes/cluster.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until, untilSlowly } from '#testing/until.ts';
import { runDemo } from './demo/run-demo.ts';

const env = { INTERNAL_SERVICE_TOKEN: TOKENS.internal };
const standIns = await openStandIns({ env });
t.teardown(standIns.close);
const cluster = await startCluster(t, {
  inside: true,
  workers: [
    'grading',
    'essayhandoff',
    'resultsrelease',
    'examroom',
    'gradenotices',
    'delivery',
    'classifier',
    'settlement',
    'upkeep',
  ],
  ownNotifications: true,
  env: {
    ...standIns.env,
    AUTH_SELF_REGISTER_ROLES: 'STUDENT,PARENT,TEACHER',
    AI_CLASSIFIER_WORKER_ENABLED: '1',
    AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '50',
  },
});
const { url } = cluster.door();

const STUDENTS = 3;
const school = schoolOf('9', STUDENTS);

/** Runs the seed on the cluster and returns what it prints. */
async function seed(): Promise<string> {
  const output = new PassThrough();
  const printed = text(output);
  const args = ['--url', url, '--seed', '9', '--students', String(STUDENTS), '--accounts', '1'];
  const fail = (line: string) => void t.fail(line);
  t.equal(await runSeed([...args, '--neighbours', standIns.url], { env, output, fail }), 0);
  output.end();
  return printed;
}

/** Returns the number of documents of each collection that a user's action creates. */
async function counts() {
  const names = ['accounts', 'attempts', 'notifications', 'notification_events', 'ai_jobs', 'attempt_notices'];
  const entries = await Promise.all(
    names.map(async (name) => [name, await cluster.mongo.collection(name).countDocuments()] as const),
  );
  return Object.fromEntries(entries);
}

const control = (method: string, body?: object) =>
  fetch(`${standIns.url}/_control/profile`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

const ops = { headers: { authorization: `Bearer ${TOKENS.ops}` } };
const trace = async (query: string) => (await cluster.request('GET', `/v1/ops/trace?${query}`, ops)).data;

t.test(
  'notices to parents wait while the profile service fails, the trace names it, and they go out afterwards',
  async (t) => {
    t.equal((await control('PUT', { answer: 503 })).status, 200);
    const printed = await seed();
    t.match(printed, /^Added: \d+ accounts, /m);
    t.match(printed, new RegExp(`${STUDENTS * 5} attempts, .* 1 releases, 1 classification jobs, 1 generations`));
    t.notMatch(printed, /No account|No stand-ins|No questions/);
    const { contacts } = standIns.profile.state();
    const emails = (all: Record<string, { email?: string }>) => Object.values(all).map(({ email }) => email);
    t.strictSame(emails(contacts).sort(), emails(contactsOf(school)).sort(), 'each person has a contact');
    const account = await cluster.mongo.collection('accounts').findOne({ role: 'TEACHER' });
    t.equal(contacts[String(account?._id)]?.email, account?.email, 'under the id of the account');

    const student = school.classes[0]?.students.find(({ parentIds }, index) => index > 0 && parentIds.length > 0);
    const exam = school.exams.find(({ state }) => state === 'released');
    const parent = student?.parentIds[0] ?? '';
    const stored = await cluster.mongo.collection('attempts').findOne({ examId: exam?.id, studentId: student?.id });
    const place = { url: cluster.env.MONGODB_URL ?? requiredEnv('MONGODB_URL'), database: cluster.mongo.databaseName };
    const told = async () =>
      (await callExamhall(place, ['trace', String(stored?._id)], { env: { REDIS_URL: cluster.env.REDIS_URL } })).out;
    const out = await until('the trace names the profile service', async () => {
      const lines = await told();
      return /profile/.test(lines.split('\n').slice(1, 5).join('\n')) && lines;
    });
    t.match(out, /the profile service answered 503/);

    t.equal((await control('PUT', { reset: true })).status, 200);
    await untilSlowly('the parent has the notice', async () => {
      const headers = { 'x-actor-id': parent, 'x-actor-role': 'PARENT' };
      const { items } = (await cluster.request('GET', '/v1/parent/alerts', { headers })).data;
      return items.some((row: { entityId: string }) => row.entityId === String(stored?._id));
    });
    await until('nothing is held up', async () => (await trace(`id=${stored?._id}`)).verdicts.length === 0);
  },
);

t.test('a school has its exams in each state, and a second run adds nothing', async (t) => {
  await untilSlowly('every notice is delivered', async () => {
    const waiting = await cluster.mongo.collection('attempt_notices').countDocuments({ status: { $ne: 'DELIVERED' } });
    return waiting === 0;
  });
  const before = await counts();
  t.match(await seed(), /^Nothing was added: the school was complete\.$/m);
  t.strictSame(await counts(), before);
  for (const { id, state } of school.exams) {
    const statuses = await cluster.mongo.collection('attempts').distinct('status', { examId: id });
    t.strictSame(statuses, [state === 'running' ? 'IN_PROGRESS' : 'GRADED'], id);
  }
  const essays = school.exams.find(({ state }) => state === 'essays')?.id;
  t.ok(await cluster.mongo.collection('attempts').countDocuments({ examId: essays, pendingManualCount: 1 }));
  t.ok(standIns.ledgerOf('local').debits.size === 1, 'the generation was paid for once');
});

const SEED = '9';
// Statistics tell a discrimination from ten attempts on, and one is voided.
const students = schoolYear(11, SEED);
const questions = mathsPaper();

t.test(
  'a class sits the exam by the client, its teacher acts, and the demo finds every answer, grade and notice',
  async (t) => {
    const standIns = await openStandIns({ env, questions });
    t.teardown(standIns.close);
    standIns.profile.learn({ parents: Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds])) });
    const cluster = await startCluster(t, {
      inside: true,
      workers: ['grading', 'essayhandoff', 'resultsrelease', 'examroom', 'gradenotices', 'classifier'],
      ownNotifications: true,
      env: { ...standIns.env, AI_CLASSIFIER_WORKER_ENABLED: '1' },
    });
    const output = new PassThrough();
    const printed = text(output);
    const code = await runDemo({
      url: cluster.door().url,
      examId: 'demo-of-the-test',
      students,
      questions,
      seed: SEED,
      progress: openProgress(output),
      env,
      addDispatcher: null,
      standIns,
      own: null,
    });
    output.end();
    const report = await printed;
    t.equal(code, 0, report);
    t.match(report, /40 of 40 questions, \d+ live updates$/m);
    t.match(report, /10 of 10 students have one notice of the release/);
    t.match(report, /^✓ nothing lost, nothing duplicated/m);

    const stored = (name: string, filter: object) => cluster.mongo.collection(name).countDocuments(filter);
    t.match(report, /half-time +the board: 11 sit, [1-9]\d* away/);
    t.equal(await stored('attempts', { extraMinutes: 10 }), 1);
    t.match(report, /good students miss them: .*\b5 \(-0\.\d\d\)/);
    t.match(report, /the teacher solves them again: A → D in question 5\n +regrade +\d+ of 11 results change/);
    t.match(report, /the discrimination of the question is 0\.\d\d now/);
    t.equal(await stored('attempt_regrades', { state: 'APPLIED' }), 1);
    t.equal(await stored('attempts', { status: 'GRADED' }), students.length);
    t.equal(await stored('attempts', { submittedBy: 'TEACHER' }), 1);
    t.equal(await stored('attempts', { voidedAt: { $ne: null } }), 1);
    t.equal(await stored('attempts', { round: 2 }), 1);
    t.match(report, /results\.csv +11 lines of 99 columns/);
    t.match(report, /audit +7 acts of the teacher, each once/);
    t.equal(await stored('operator_audit', { operator: TEACHER }), 7);
  },
);

const DEMO = path.join(import.meta.dirname, 'demo.ts');

t.test('a demo whose port is taken reports it without a stack', async (t) => {
  const cluster = await listenLocally((_call, response) => {
    answerJson(response, { status: 200, body: { data: { checks: {} } } });
  });
  t.teardown(() => cluster.close());
  const { port } = new URL(cluster.url);
  // The port of the cluster itself is certainly taken.
  const demo = spawn(process.execPath, [DEMO, '--url', cluster.url, '--profile-port', port]);
  const [out, err, [code]] = await Promise.all([text(demo.stdout), text(demo.stderr), once(demo, 'close')]);
  t.equal(code, 1);
  t.equal(out, '');
  t.equal(err.trim(), `error: port ${port} is in use, perhaps by another demo; end that one, or pass --profile-port`);
});
