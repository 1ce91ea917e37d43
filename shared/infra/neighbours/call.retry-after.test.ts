import t from 'tap';
import { retryAfterMs } from './call.ts';

const waitOf = (retryAfter: string, date?: string) =>
  retryAfterMs(new Headers({ 'retry-after': retryAfter, ...(date === undefined ? {} : { date }) }));

t.test('reads Retry-After in seconds', async (t) => {
  t.equal(waitOf('0'), 0);
  t.equal(waitOf('120'), 120_000);
});

t.test('reads a Retry-After date relative to the Date of the sender, not to the local clock', async (t) => {
  t.equal(waitOf('Wed, 21 Oct 2015 07:28:30 GMT', 'Wed, 21 Oct 2015 07:28:00 GMT'), 30_000);
  t.equal(waitOf('Wed, 21 Oct 2015 07:27:00 GMT', 'Wed, 21 Oct 2015 07:28:00 GMT'), 0, 'a date in the past');
});

t.test('ignores an unreadable Retry-After', async (t) => {
  t.equal(retryAfterMs(new Headers()), null);
  for (const value of ['', 'soon', '-5', '1e9', '99999999999']) t.equal(waitOf(value), null, value);
  t.equal(waitOf('Wed, 21 Oct 2015 07:28:30 GMT'), null, 'a date without the Date of the sender');
});
