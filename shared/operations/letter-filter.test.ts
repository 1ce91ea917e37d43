import t from 'tap';
import { readLetterFilter } from './letter-filter.ts';

const queues = ['grading', 'settlement'] as const;
const timeOf = (text: string) => (text === 'now' ? new Date(0) : null);
const read = (given: Parameters<typeof readLetterFilter>[0]) => readLetterFilter(given, { queues, timeOf });

t.test('a filter has the fields that were given, and no other', async (t) => {
  t.strictSame(read({}), {});
  t.strictSame(read({ queue: null, cause: undefined, subject: null, since: null, until: undefined }), {});
  t.strictSame(read({ queue: 'grading', cause: 'c', subject: 's', since: 'now', until: 'now' }), {
    queue: 'grading',
    cause: 'c',
    subject: 's',
    since: new Date(0),
    until: new Date(0),
  });
});

t.test('an unknown queue and a text that is no time are faults', async (t) => {
  t.strictSame(read({ queue: 'toString' }), { fault: 'queue' });
  t.strictSame(read({ queue: '', since: 'later' }), { fault: 'queue' });
  t.strictSame(read({ since: 'later' }), { fault: 'time' });
  t.strictSame(read({ until: 'later' }), { fault: 'time' });
});
