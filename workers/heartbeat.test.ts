import t from 'tap';
import { openDifference } from './heartbeat.ts';

t.test('a heartbeat counts what was settled within the last minute', async (t) => {
  const counts: Record<string, number> = { grading: 100 };
  const beat = openDifference(() => ({ ...counts }));
  t.strictSame(beat(), { grading: 0 }, 'not what was settled before the start');
  for (let second = 5; second <= 60; second += 5) {
    counts.grading = (counts.grading ?? 0) + 1;
    beat();
  }
  counts.upkeep = 3;
  t.strictSame(beat(), { grading: 11, upkeep: 3 }, 'the settles of twelve beats, and of a new queue');
  for (let second = 0; second < 60; second += 5) beat();
  t.strictSame(beat(), { grading: 0, upkeep: 0 }, 'a quiet minute');
});
