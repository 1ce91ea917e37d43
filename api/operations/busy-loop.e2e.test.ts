import t from 'tap';
import { startCluster } from '#testing/processes/cluster.ts';
import { untilSlowly } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, workers: ['grading'] });
/** Longer than any start of a process holds the event loop. */
const HELD_MS = 5_000;
const headers = { authorization: `Bearer ${cluster.tokens.ops}` };

/** Returns the alarms that `GET /v1/ops/status` has for event loops. */
async function busyLoops(): Promise<{ about: string; heldMs: number; text: string }[]> {
  const { json } = await cluster.request('GET', '/v1/ops/status', { headers });
  return json.data.alarms.filter(({ kind }: { kind: string }) => kind === 'busy-loop');
}

const isHeld = ({ heldMs }: { heldMs: number }) => heldMs > 0.9 * HELD_MS;

t.test('a front door and a worker whose event loop work has held are named in the status', async (t) => {
  // Both run in this process, so that the same work holds them.
  const endsAt = process.threadCpuUsage().user + HELD_MS * 1_000;
  while (process.threadCpuUsage().user < endsAt);
  await untilSlowly('both are named', async () => (await busyLoops()).filter(isHeld).length === 2);
  const alarms = (await busyLoops()).filter(isHeld);
  for (const name of ['web', 'grading']) {
    const alarm = alarms.find(({ about }) => about.startsWith(`${name}@`));
    t.match(alarm, {
      text: new RegExp(`^${name}@\\S+:${process.pid}.*: one piece of work held its event loop for \\d`),
    });
  }
});
