import t from 'tap';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const NOTICE: CrashScenario = {
  name: 'notice to the owner of an account',
  status: 'DELIVERED',
  leastPoints: 6,
  post: (mongo) => postAccountNotice(mongo),
  async check(t, { neighbours }, { _id }) {
    const times = neighbours.notices.get(_id) ?? 0;
    // A worker that was killed after the answer and before its settlement sends again, under the same id.
    t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'accountnotices', [NOTICE]),
);
