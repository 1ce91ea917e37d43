import t from 'tap';
import { MINUTE } from '#shared/kernel/time.ts';
import { openWrongTokens } from './wrong-tokens.ts';

/** Opens a count with a clock of the test, and notes its lines and what it counts. */
function rig() {
  const clock = { now: 0 };
  const lines: Record<string, unknown>[] = [];
  const counted: string[] = [];
  const wrongTokens = openWrongTokens({
    trustedProxies: ['10.0.0.1'],
    log: { warn: (fields, message) => lines.push({ ...fields, message }) },
    addressHash: (address) => `hash of ${address}`,
    counted: (kind, outcome) => counted.push(`${kind} ${outcome}`),
    clock: () => clock.now,
  });
  const send = (kind: 'operator' | 'gateway' | 'console', address = '203.0.113.7') =>
    wrongTokens.count({ peer: '10.0.0.1', headers: { 'x-forwarded-for': address } }, kind);
  return { clock, lines, counted, send };
}

t.test('a network may send 100 wrong tokens of operators within five minutes, and ten to the console', async (t) => {
  const { clock, counted, send } = rig();
  for (let n = 0; n < 100; n += 1) t.equal(send('operator'), null);
  clock.now += MINUTE;
  t.equal(send('operator'), 240, 'the rest of the five minutes');
  for (let n = 0; n < 101; n += 1) t.equal(send('gateway'), null, 'a gateway with an outdated token');
  t.equal(send('operator', '203.0.113.8'), null, 'another address');
  t.strictSame([counted[99], counted[100], counted[201]], ['operator refused', 'operator limited', 'gateway refused']);
  for (let n = 0; n < 10; n += 1) t.equal(send('console'), null);
  t.equal(send('console'), 240);
  clock.now += 4 * MINUTE;
  t.equal(send('operator'), null);
});

t.test('all networks of one customer are counted together', async (t) => {
  const { send } = rig();
  for (let n = 0; n < 10; n += 1) t.equal(send('console', `2001:db8:a:${n}::1`), null);
  t.equal(send('console', '2001:db8:a:ffff::1'), 300);
  t.equal(send('console', '2001:db8:b::1'), null);
});

t.test('a network is logged once a minute, by a hash and with the number of its wrong tokens', async (t) => {
  const { clock, lines, send } = rig();
  for (let n = 0; n < 50; n += 1) send('operator');
  send('operator', '2001:db8:a:1::7');
  const message = 'wrong token refused';
  const first = { address: 'hash of 203.0.113.7', kind: 'operator', wrong: 1, message };
  t.strictSame(lines, [first, { ...first, address: 'hash of 2001:db8:a:1::/64' }]);
  clock.now += MINUTE;
  send('gateway');
  send('gateway');
  t.strictSame(lines.slice(2), [{ ...first, kind: 'gateway', wrong: 50 }]);
});

t.test('a flood from many networks holds a bounded number of them', async (t) => {
  const { send } = rig();
  for (let n = 0; n < 10; n += 1) send('console');
  for (let n = 0; n < 10_000; n += 1) send('console', `2001:db8:${n.toString(16)}::1`);
  t.equal(send('console'), null, 'the oldest network is forgotten');
});
