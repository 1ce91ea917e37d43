import t from 'tap';
import { endsLapses, type NextState } from './settle.ts';

t.test('an outcome ends a row of lapses, and a run that was cut short does not', async (t) => {
  const error = { fingerprint: 'Error: no', message: 'no', code: null };
  const again = { to: 'AGAIN', inMs: 0 } as const;
  const cases: [NextState, boolean][] = [
    [{ to: 'DONE', result: null as never }, true],
    [{ to: 'DEAD', error }, true],
    [{ ...again, unspent: false, error }, true],
    [{ ...again, unspent: true, error: null }, true],
    [{ ...again, unspent: true, error }, false],
  ];
  for (const [next, ends] of cases) t.equal(endsLapses(next), ends, JSON.stringify(next));
});
