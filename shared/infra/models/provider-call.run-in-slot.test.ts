import pLimit from 'p-limit';
import t from 'tap';
import { runInSlot } from './provider-call.ts';

const late = () => new Error('late');
const rules = (more: { signal?: AbortSignal; waitMs?: number } = {}) => ({
  signal: new AbortController().signal,
  waitMs: 600_000,
  late,
  ...more,
});

t.test('a caller without a slot in time is rejected, and its work never starts', async (t) => {
  const slots = pLimit(1);
  const held = Promise.withResolvers<string>();
  const first = runInSlot(slots, rules({ waitMs: 1 }), () => held.promise);
  let calls = 0;
  const work = async () => ++calls;
  await t.rejects(runInSlot(slots, rules({ waitMs: 1 }), work), { message: 'late' });
  const controller = new AbortController();
  const cut = runInSlot(slots, rules({ signal: controller.signal }), work);
  controller.abort(new Error('cancelled'));
  await t.rejects(cut, { message: 'cancelled' });
  const third = runInSlot(slots, rules(), work);
  held.resolve('done');
  t.equal(await first, 'done', 'the wait limit does not apply to work that has begun');
  t.equal(await third, 1, 'the slots of those who went are free');
});

t.test('work that has started runs to its end after its caller was aborted', async (t) => {
  const slots = pLimit(1);
  const controller = new AbortController();
  const held = Promise.withResolvers<void>();
  const begins = Promise.withResolvers<void>();
  const begun = runInSlot(slots, rules({ signal: controller.signal }), () => {
    begins.resolve();
    return held.promise;
  });
  await begins.promise;
  controller.abort(new Error('cancelled'));
  await t.rejects(begun, { message: 'cancelled' });
  t.equal(slots.activeCount, 1);
  held.reject(new Error('nobody hears of it'));
  await runInSlot(slots, rules(), async () => undefined);
  let calls = 0;
  const tooLate = runInSlot(slots, rules({ signal: controller.signal }), async () => ++calls);
  await t.rejects(tooLate, { message: 'cancelled' });
  t.equal(calls, 0);
});
