import t from 'tap';
import { type Hold, holdsAhead } from './generation.ts';

const hold = (previewId: string, credits: number): Hold => ({
  previewId,
  fence: 1,
  credits,
  tokens: credits * 100,
  until: new Date(),
});

t.test('only earlier holds count ahead of a hold', async (t) => {
  const holds = [hold('a', 3), hold('b', 6), hold('c', 9)];
  t.strictSame(holdsAhead({ holds }, 'a'), { credits: 0, tokens: 0 });
  t.strictSame(holdsAhead({ holds }, 'c'), { credits: 9, tokens: 900 });
  t.strictSame(holdsAhead({ holds }, 'gone'), { credits: 18, tokens: 1_800 }, 'without a place in line it is the last');
  t.strictSame(holdsAhead({ holds: [] }, 'a'), { credits: 0, tokens: 0 });
});
