import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { openProgress } from '#scripts/progress.ts';
import { openStandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { mathsPaper } from '#scripts/sandbox/school/paper.ts';
import { schoolYear } from '#scripts/sandbox/school/students.ts';
import { startCluster, TOKENS } from '#testing/processes/cluster.ts';
import { runDemo } from './run-demo.ts';

const SEED = '9';
const env = { INTERNAL_SERVICE_TOKEN: TOKENS.internal };
const students = schoolYear(3, SEED);
const questions = mathsPaper();

t.test('a class sits the exam by the client, and the demo finds every answer, grade and notice', async (t) => {
  const standIns = await openStandIns({ env, questions });
  t.teardown(standIns.close);
  standIns.profile.learn({ parents: Object.fromEntries(students.map(({ id, parentIds }) => [id, parentIds])) });
  const cluster = await startCluster(t, {
    inside: true,
    workers: ['grading', 'essayhandoff', 'resultsrelease', 'gradenotices', 'classifier'],
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
    delivery: { losses: null, addDispatcher: null },
    standIns,
    own: null,
  });
  output.end();
  const report = await printed;
  t.equal(code, 0, report);
  t.match(report, /40 of 40 questions, \d+ live updates$/m);
  t.match(report, /3 of 3 students have exactly one notice/);
  t.match(report, /^✓ nothing lost, nothing duplicated/m);
  t.equal(await cluster.mongo.collection('attempts').countDocuments({ status: 'GRADED' }), students.length);
});
