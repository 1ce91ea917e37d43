import t from 'tap';
import { readMoment } from './read-moment.ts';

const NOW = Date.parse('2026-11-23T08:00:00Z');
const read = (text: string) => readMoment(text, NOW)?.toISOString() ?? null;

t.test('a moment is a time with its zone or an age', async (t) => {
  t.equal(read('90m'), '2026-11-23T06:30:00.000Z');
  t.equal(read('30s'), '2026-11-23T07:59:30.000Z');
  t.equal(read('2h'), '2026-11-23T06:00:00.000Z');
  t.equal(read('3d'), '2026-11-20T08:00:00.000Z');
  t.equal(read('2026-11-23T08:00+07:00'), '2026-11-23T01:00:00.000Z');
  t.equal(read('2026-11-23T08:00:01.5Z'), '2026-11-23T08:00:01.500Z');
});

t.test('anything else is refused', async (t) => {
  for (const text of ['', '2', 'h', '-2h', '2w', '2026-11-23', '2026-11-23T08:00', '2026-13-01T00:00Z', 'yesterday']) {
    t.equal(read(text), null, text);
  }
});
