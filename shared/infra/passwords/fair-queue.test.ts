import t from 'tap';
import { fairQueue, HasherBusy, type Lane } from './fair-queue.ts';

type Kind = 'log' | 'ship';

const lane = (kind: Kind, address: string): Lane<Kind> => ({ kind, address, account: null });

/** A queue of two places whose pieces of work end when the test ends them. */
function heldQueue(total = Number.POSITIVE_INFINITY) {
  const limits = { total, ofAddress: total, ofAccount: total };
  const queue = fairQueue<Kind>({
    lines: { log: limits, ship: limits },
    mayStart: (_kind, { log, ship }) => log + ship < 2,
  });
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const enter = (kind: Kind, address: string, name: string) =>
    queue.run(lane(kind, address), () => {
      begun.push(name);
      return new Promise<void>((end) => void ends.push(end));
    });
  async function drain(): Promise<void> {
    for (let next = 0; next < ends.length; next += 1) {
      ends[next]?.();
      await new Promise(setImmediate);
    }
  }
  return { queue, begun, enter, drain };
}

t.test('addresses take turns within a kind, and kinds with each other', async (t) => {
  const { begun, enter, drain, queue } = heldQueue();
  const flood = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => enter('log', '203.0.113.7', name));
  const others = [
    enter('log', '198.51.100.7', 'b1'),
    enter('log', '192.0.2.7', 'c1'),
    enter('ship', '203.0.113.7', 's1'),
  ];
  await new Promise(setImmediate);
  t.strictSame(begun, ['a1', 'a2']);
  t.strictSame(queue.load(), { log: { running: 2, waiting: 5 }, ship: { running: 0, waiting: 1 } });
  await drain();
  t.strictSame(begun, ['a1', 'a2', 'a3', 's1', 'b1', 'c1', 'a4', 'a5']);
  await Promise.all([...flood, ...others]);
});

t.test('work that a newcomer of another network displaces is refused while it waits', async (t) => {
  const { begun, enter, drain, queue } = heldQueue(2);
  const flood = ['a1', 'a2', 'a3', 'a4'].map((name, n) => enter('log', `2001:db8:a:${n}::/64`, name));
  t.equal(queue.hasRoom(lane('log', '2001:db8:a:4::/64')), false, 'a further network of the same customer');
  t.equal(queue.hasRoom(lane('log', '2001:db8:b:0::/64')), true);
  const home = enter('log', '2001:db8:b:0::/64', 'home');
  await t.rejects(flood[3] as Promise<void>, HasherBusy);
  await t.rejects(enter('log', '2001:db8:a:4::/64', 'a5'), HasherBusy);
  await drain();
  await Promise.all([...flood.slice(0, 3), home]);
  t.strictSame(begun, ['a1', 'a2', 'a3', 'home']);
});

t.test('work that fails lets the next piece in', async (t) => {
  const { queue } = heldQueue();
  const fail = () => queue.run(lane('log', 'a'), () => Promise.reject(new Error('no memory')));
  const failing = Array.from({ length: 5 }, fail);
  const last = queue.run(lane('log', 'a'), async () => 'last');
  for (const failed of failing) await t.rejects(failed, /no memory/);
  t.equal(await last, 'last');
});
