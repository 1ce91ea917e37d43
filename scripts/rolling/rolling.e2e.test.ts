import path from 'node:path';
import t from 'tap';
import type { Progress } from '#scripts/progress.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { chooseRelease, NoEarlierRelease } from './earlier-release.ts';
import { runRolling } from './run-rolling.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** Returns the reason why the test cannot run here; false if it can. */
function missing(): string | false {
  if (process.env.FAULTS_FULL !== '1')
    return 'it takes a minute, most of it processor time: set FAULTS_FULL=1, or use `npm run rolling`';
  try {
    chooseRelease(root);
    return false;
  } catch (error) {
    if (error instanceof NoEarlierRelease) return error.message;
    throw error;
  }
}

const progress: Progress = {
  begin: (title) => t.comment(title),
  step: () => undefined,
  reach: () => undefined,
  end: (note) => t.comment(note),
  line: (text) => t.comment(text),
};

/** The short form of `npm run rolling`. */
t.test(
  'an earlier release and this one share a database, and restarts fail no call',
  {
    skip: missing(),
  },
  async (t) => {
    const { verdicts, states } = await runRolling(
      {
        root,
        mongodbUrl: requiredEnv('MONGODB_URL'),
        redisUrl: requiredEnv('REDIS_URL'),
        students: 1,
        sittings: 1,
        saves: 2,
        restarts: 4,
        // An installation takes longer than the test.
        mayShareDirect: true,
      },
      progress,
    );
    for (const [state, count] of states) t.ok(count > 0, `the earlier release leaves ${state}`);
    for (const { what, checked, faults } of verdicts) {
      t.strictSame(faults, [], what);
      t.ok(what.startsWith('processes') || checked > 0, `${what}: ${checked} checked`);
    }
  },
);
