import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { openStreamSlots } from './live-stream.ts';

t.test('stream places are limited per actor and in all, and each is released once', async (t) => {
  const slots = openStreamSlots({ perActor: 2, inAll: 3 });
  const first = slots.acquire('an');
  t.notOk(isRejection(first));
  slots.acquire('an');
  t.match(
    slots.acquire('an'),
    { rejected: 'RATE_LIMITED', retryAfter: 15 },
    'the caller has used all places of one actor',
  );
  slots.acquire('binh');
  t.match(slots.acquire('chi'), { rejected: 'UNAVAILABLE', retryAfter: 15 }, 'all places of the process are in use');
  if (isRejection(first)) return;
  first();
  first();
  t.notOk(isRejection(slots.acquire('an')), 'a released place can be acquired');
  t.match(slots.acquire('chi'), { rejected: 'UNAVAILABLE' }, 'once only');
});
