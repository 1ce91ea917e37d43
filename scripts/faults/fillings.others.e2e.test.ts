import t from 'tap';
import { fillingSuite } from '#testing/suites/filling-suite.ts';

fillingSuite(t, 'others');
