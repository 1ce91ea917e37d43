import t from 'tap';
import { countedAs, networksOf } from '#infra/net/ip-address.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { openStreamSlots } from './stream-slots.ts';

/** Opens the slots of a process, and notes whose streams end to make room. */
function openCounted(limits: { perActor: number; inAll: number }) {
  const slots = openStreamSlots(limits);
  const ended: string[] = [];
  return {
    slots,
    ended,
    acquire: (actorId: string, address = '203.0.113.7') =>
      slots.acquire({ actorId, networks: networksOf(countedAs(address)) }, () => ended.push(actorId)),
  };
}

const isOpen = (acquired: unknown) => !isRejection(acquired);

t.test('stream places are limited per actor and in all, and each is released once', async (t) => {
  const { acquire } = openCounted({ perActor: 2, inAll: 3 });
  const first = acquire('an');
  t.ok(isOpen(first));
  acquire('an', '192.0.2.1');
  t.match(acquire('an'), { rejected: 'RATE_LIMITED', retryAfter: 15 }, 'the caller has all places of one actor');
  acquire('binh');
  t.match(acquire('chi'), { rejected: 'UNAVAILABLE', retryAfter: 15 }, 'each of the others has one place');
  if (isRejection(first)) return;
  first();
  first();
  t.ok(isOpen(acquire('an')), 'a released place can be acquired');
  t.match(acquire('chi'), { rejected: 'UNAVAILABLE' }, 'once only');
});

t.test('a thousand accounts of one network shut out neither a school nor a newcomer from elsewhere', async (t) => {
  const { slots, ended, acquire } = openCounted({ perActor: 5, inAll: 5_000 });
  const school = '198.51.100.7';
  for (let n = 0; n < 2_000; n += 1) t.ok(isOpen(acquire(`student-${n}`, school)) || n);

  // Each account comes from a /64 of its own.
  const attack = () => {
    for (let n = 0; n < 5_000; n += 1) acquire(`stranger-${n % 1_000}`, `2001:db8:a:${(n % 1_000).toString(16)}::1`);
  };
  attack();
  t.equal(slots.open(), 5_000);
  t.ok(
    ended.every((actor) => actor.startsWith('stranger-')),
    'the attack takes places from itself alone',
  );

  for (let n = 0; n < 300; n += 1) {
    if (!isOpen(acquire(`pupil-${n}`, `192.0.2.${n % 250}`))) t.fail(`newcomer ${n}`);
    if (!isOpen(acquire(`late-${n}`, school))) t.fail(`student ${n} of the school`);
  }
  attack();
  t.equal(slots.open(), 5_000);
  t.strictSame(
    ended.filter((actor) => !actor.startsWith('stranger-')),
    [],
  );
});

t.test('of streams behind one address, the actor with most streams makes room', async (t) => {
  const { slots, ended, acquire } = openCounted({ perActor: 5, inAll: 10 });
  for (let n = 0; n < 10; n += 1) acquire(n % 2 === 0 ? 'an' : 'binh');
  t.ok(isOpen(acquire('chi')));
  t.strictSame(ended, ['an'], 'its oldest stream');
  t.ok(isOpen(acquire('chi')));
  t.strictSame(ended, ['an', 'binh']);
  t.equal(slots.open(), 10);
});

t.test('equally full networks do not take the places of each other again and again', async (t) => {
  const { ended, acquire } = openCounted({ perActor: 5, inAll: 4 });
  for (const address of ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1']) acquire(address, address);
  t.match(acquire('new', '192.0.2.2'), { rejected: 'UNAVAILABLE' });
  t.match(acquire('new', '100.64.0.1'), { rejected: 'UNAVAILABLE' });
  t.strictSame(ended, []);
});
