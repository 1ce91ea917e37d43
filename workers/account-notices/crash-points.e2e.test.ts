import t from 'tap';
import { crashSuite } from '#testing/suites/crash-suite.ts';

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'accountnotices'),
);
