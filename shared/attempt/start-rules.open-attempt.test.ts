import t from 'tap';
import { reuseOpenAttempt, type StartPlan } from './start-rules.ts';

const open = { _id: 'attempt-1', accessLinkId: 'link-1', startKeys: ['key-1'] };
const byAssignment: Pick<StartPlan, 'link'> = { link: null };
const byLink = (id: string): Pick<StartPlan, 'link'> => ({ link: { id, mode: 'GUEST_ALLOWED' } });

t.test('a start returns the open attempt and stores the new key as its alias', async (t) => {
  t.strictSame(reuseOpenAttempt(open, byAssignment, 'key-2'), { storeAlias: true });
  t.strictSame(reuseOpenAttempt(open, byLink('link-1'), 'key-2'), { storeAlias: true });
  t.strictSame(reuseOpenAttempt(open, byAssignment, 'key-1'), { storeAlias: false });
});

t.test('the number of start key aliases is limited', async (t) => {
  const keys = (count: number) => ({ ...open, startKeys: Array.from({ length: count }, (_, n) => `key-${n}`) });
  t.strictSame(reuseOpenAttempt(keys(50), byAssignment, 'new'), { storeAlias: true }, 'one start, 49 aliases');
  t.strictSame(reuseOpenAttempt(keys(51), byAssignment, 'new'), { storeAlias: false });
});

t.test('a start through another link is refused while an attempt is open', async (t) => {
  const refused = { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: 'attempt-1' } };
  t.strictSame(reuseOpenAttempt(open, byLink('link-2'), 'key-2'), refused);
  t.strictSame(reuseOpenAttempt({ ...open, accessLinkId: null }, byLink('link-1'), 'key-2'), refused);
});
