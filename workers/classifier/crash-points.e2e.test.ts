import t from 'tap';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-model-work.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const CLASSIFICATION: CrashScenario = {
  name: 'classification',
  status: 'DONE',
  leastPoints: 25,
  post: (mongo) => postJob(mongo),
  async check(t, { mongo }, { subject }) {
    t.equal(await finishedOnce(mongo, subject), 1, 'every batch is stored and counted once');
    const job = await findJob(mongo, subject);
    t.match(job, { open: false, error: null, counts: { succeeded: 7, failed: 0, batchesDone: 2 } });
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'classifier', [CLASSIFICATION]),
);
