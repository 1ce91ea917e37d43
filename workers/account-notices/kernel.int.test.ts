import t from 'tap';
import { kernelSuite } from '#testing/suites/kernel-suite.ts';

t.test('the accountnotices actor passes the kernel suite', (t) => kernelSuite(t, 'accountnotices'));
