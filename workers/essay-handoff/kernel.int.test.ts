import t from 'tap';
import { kernelSuite } from '#testing/suites/kernel-suite.ts';

t.test('the essayhandoff actor passes the kernel suite', (t) => kernelSuite(t, 'essayhandoff'));
