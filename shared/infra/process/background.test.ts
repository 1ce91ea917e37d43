import t from 'tap';
import { gate } from '#testing/until.ts';
import { openBackground } from './background.ts';

function rig(maxWaiting = 10) {
  const seen = { dropped: 0, failed: [] as unknown[], done: 0 };
  const background = openBackground({
    concurrency: 2,
    maxWaiting,
    dropped: (count) => {
      seen.dropped += count;
    },
    failed: (error) => void seen.failed.push(error),
  });
  const work = async (until?: Promise<void>): Promise<void> => {
    await until;
    seen.done += 1;
  };
  return { seen, background, work };
}

t.test('background work that is accepted runs, and a failure is reported without stopping the rest', async (t) => {
  const { seen, background, work } = rig();
  for (let n = 0; n < 5; n++) background.run(() => work());
  background.run(() => Promise.reject(new Error('no')));
  t.equal(await background.end(60_000), 0);
  t.match(seen, { done: 5, dropped: 0, failed: [{ message: 'no' }] });
});

t.test('the end of background work drops and counts pieces that hang or still wait', async (t) => {
  const { seen, background, work } = rig();
  const never = gate();
  for (let n = 0; n < 4; n++) background.run(() => work(never.opened));
  t.equal(await background.end(1), 4);
  t.equal(seen.dropped, 4);
  background.run(() => work());
  t.equal(seen.dropped, 5, 'no more work is accepted');
  never.open();
  await new Promise(setImmediate);
  t.equal(seen.done, 2, 'waiting work never started');
});

t.test('background work beyond the waiting limit is dropped', async (t) => {
  const { seen, background, work } = rig(1);
  const hold = gate();
  // p-limit counts a new piece as waiting until the next turn of the event loop.
  for (let n = 0; n < 6; n++) {
    background.run(() => work(hold.opened));
    await new Promise(setImmediate);
  }
  t.equal(seen.dropped, 3);
  hold.open();
  t.equal(await background.end(60_000), 0);
  t.equal(seen.done, 3);
});
