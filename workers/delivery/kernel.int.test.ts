import t from 'tap';
import { kernelSuite } from '#testing/suites/kernel-suite.ts';

t.test('the kernel with this actor', (t) => kernelSuite(t, 'delivery'));
