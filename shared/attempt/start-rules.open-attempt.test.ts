import t from 'tap';
import type { StartAccess, StartLink } from './start-body.ts';
import { reuseOpenAttempt } from './start-rules.ts';

const now = new Date('2026-05-04T03:00:00.000Z');
const link: StartLink = { id: 'link-1', mode: 'GUEST_ALLOWED', active: true };
const open = { _id: 'attempt-1', accessLinkId: 'link-1', startKeys: ['key-1'] };
const ask = (access: StartAccess, of = open, startKey = 'key-2') => reuseOpenAttempt(of, { access, startKey, now });

t.test('an open attempt is handed back, under the new key too', async (t) => {
  t.strictSame(ask({ assigned: true }), { reuse: true, storeAlias: true });
  t.strictSame(ask({ assigned: false, link }), { reuse: true, storeAlias: true });
  t.strictSame(ask({ assigned: true }, open, 'key-1'), { reuse: true, storeAlias: false });
});

t.test('aliases are bounded', async (t) => {
  const keys = (count: number) => ({ ...open, startKeys: Array.from({ length: count }, (_, n) => `key-${n}`) });
  t.strictSame(ask({ assigned: true }, keys(50), 'new'), { reuse: true, storeAlias: true }, 'one start, 49 aliases');
  t.strictSame(ask({ assigned: true }, keys(51), 'new'), { reuse: true, storeAlias: false });
});

t.test('a start through another link asks for a new attempt', async (t) => {
  const other = { ...link, id: 'link-2' };
  const refused = { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: 'attempt-1' } };
  t.strictSame(ask({ assigned: true, link: other }), refused);
  t.strictSame(
    reuseOpenAttempt({ ...open, accessLinkId: null }, { access: { assigned: true, link }, startKey: 'k', now }),
    refused,
  );
  const dead = { ...other, expiresAt: now.toISOString() };
  t.strictSame(ask({ assigned: false, link: dead }), { reuse: true, storeAlias: true }, 'a dead link starts nothing');
});
