import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { openStreamPlaces } from './live-stream.ts';

t.test('stream places are limited per actor and in all, and each is released once', async (t) => {
  const places = openStreamPlaces({ perActor: 2, inAll: 3 });
  const first = places.take('an');
  t.notOk(isRejection(first));
  places.take('an');
  t.match(places.take('an'), { rejected: 'RATE_LIMITED', retryAfter: 15 }, "the caller's own are taken");
  places.take('binh');
  t.match(places.take('chi'), { rejected: 'UNAVAILABLE', retryAfter: 15 }, 'none is left for anybody');
  if (isRejection(first)) return;
  first();
  first();
  t.notOk(isRejection(places.take('an')), 'given back');
  t.match(places.take('chi'), { rejected: 'UNAVAILABLE' }, 'once only');
});
