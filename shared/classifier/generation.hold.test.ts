import t from 'tap';
import { type Hold, holdsAhead } from './generation.ts';

const hold = (previewId: string, credits: number): Hold => ({
  previewId,
  fence: 1,
  credits,
  tokens: credits * 100,
  until: new Date(),
});

const counted = (credits: number) => ({ balance: credits, usage: { credits, tokens: credits * 100 } });

t.test('only earlier holds count ahead of a hold', async (t) => {
  const holds = [hold('a', 3), hold('b', 6), hold('c', 9)];
  t.strictSame(holdsAhead({ holds }, 'a'), counted(0));
  t.strictSame(holdsAhead({ holds }, 'c'), counted(9));
  t.strictSame(holdsAhead({ holds }, 'gone'), counted(18), 'without a place in line it is the last');
  t.strictSame(holdsAhead({ holds: [] }, 'a'), counted(0));
});

t.test('a hold that the usage service has counted holds only the balance', async (t) => {
  const holds = [{ ...hold('a', 3), usageConsumed: true }, { ...hold('b', 6), usageConsumed: false }, hold('c', 9)];
  t.strictSame(holdsAhead({ holds }, 'c'), { balance: 9, usage: { credits: 6, tokens: 600 } });
});
