import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { Log } from '#infra/log/log.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { WorkerDeps } from '#workers/actor.ts';
import { reportToAnalytics } from './actor.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const PAPER = samplePaper({ questionId: 'choice' });
const gradedAttempt = (): Attempt => sampleAttempt({ status: 'GRADED', totalScore: 1, submittedAt: new Date() });

function depsOf(log: Log, env: NodeJS.ProcessEnv) {
  const [queued, alarms]: [(() => Promise<void>)[], string[]] = [[], []];
  const background = { run: (work: () => Promise<void>) => void queued.push(work) };
  const alarm = (name: string) => void alarms.push(name);
  return { queued, alarms, deps: { config: testConfig(env), log, background, alarm } as unknown as WorkerDeps };
}

t.test('a queued analytics call holds the events, not the attempt', async (t) => {
  const { queued, deps } = depsOf(captureLog(), { ANALYTICS_SERVICE_URL: 'http://127.0.0.1:1' });
  const attempt = new WeakRef(queueOne(deps));
  // A WeakRef holds its target until the end of the turn in which it was made.
  await new Promise(setImmediate);
  collectGarbage();
  t.equal(queued.length, 1);
  t.equal(attempt.deref(), undefined, 'a queued call retains no attempt');
});

function queueOne(deps: WorkerDeps): Attempt {
  const attempt = gradedAttempt();
  reportToAnalytics(deps, attempt, PAPER, new Date());
  return attempt;
}

t.test('any analytics failure is logged and counted, and never thrown', async (t) => {
  const log = captureLog();
  const { queued, alarms, deps } = depsOf(log, { ANALYTICS_SERVICE_URL: 'http://127.0.0.1:1' });
  const attempt = gradedAttempt();
  reportToAnalytics(deps, attempt, PAPER, new Date());
  await queued[0]?.();
  t.strictSame(alarms, ['analytics_failed', 'analytics_failed'], 'the analytics address refuses connections');
  t.match(log.lines, [{ level: 'warn', fields: { attemptId: attempt._id, err: Error } }, { level: 'warn' }]);
  // Building the events of this attempt fails. Its grade has committed already and must not be undone.
  reportToAnalytics(deps, { ...attempt, answers: null } as never, PAPER, new Date(Number.NaN));
  t.equal(queued.length, 1);
  t.equal(alarms.length, 3);
});

t.test('no analytics call is queued if no analytics service is configured', async (t) => {
  const { queued, deps } = depsOf(captureLog(), {});
  reportToAnalytics(deps, gradedAttempt(), PAPER, new Date());
  t.strictSame(queued, []);
});
